"""Multi-turn PPO for vision-language agents: the only place in the project with an RL algorithm.

In the order of a rollout's way through it:

    chat_encoder    observations to tokens and picture features, replies to text; conversation, processors
    vision_cache    cached features of frozen vision towers
    generation      the interface of generation back-ends, and transformers'; vllm_samplers: vLLM's
    environments    the environments of a training and their simulators; level_sampler: which levels a rollout plays
    episodes        what was played, and the token sequences that are trained on
    rollout         plays many episodes at once; rollout_worker: a training's rollouts; async_rollout: beside updates
    actor_critic    policy, critic and reference; introspection: a model's parts; family_checks: self-checks
    scoring         log-probabilities of sampled tokens without the logits of all others
    experience      a rollout as tensors; trajectories: the input of the estimators; packing: their tokens end to end
    advantages      token, turn, Bi-Level and dual-discount GAE, VinePPO; group_advantages: GRPO, RLOO, GiGPO
    continuations   Monte Carlo continuations of states
    losses          what is minimised; reasoning: the reward for reasoning, of turns or single sentences
    config          the trainer's settings; setting_types: their checks; recipes: named ones
    trainer         all of it on transformers' Trainer; checkpoints, distributed, metrics
    warmstart       supervised fine-tuning on the oracle's replies
    launch          accelerate's configuration files
"""

from vagen_envs.extras import need

need("vagen_adapters.ppo", "ppo", "torch")
