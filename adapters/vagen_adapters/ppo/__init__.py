"""Multi-turn PPO for vision-language agents: the only place in the project with an RL algorithm.

In the order of a rollout's way through it:

    codec          observations to tokens and picture features, replies to text
    features       pictures' features end to end; seeing keeps what frozen towers say of them
    generation     replies from a model: the interface of back-ends, and transformers'
    vllm_samplers  the same from vLLM, in process or as a server; vllm_worker is what its workers need
    episodes       what was played, and the token sequences that are trained on
    rollout        many episodes at once
    actor_critic   policy, critic and reference; log-probabilities and values of tokens
    reading        what a critic reads off the latest picture
    trajectories   a batch of episodes as tensors, and its checks
    packing        their sampled tokens end to end, and estimates back in place
    advantages     how good each token was: token, turn, Bi-Level and dual-discount GAE, VinePPO; group_advantages:
                   GRPO, RLOO, RLOO by turn, GiGPO
    forks          episodes played on from states that were met
    losses         what is minimised
    metrics        what is logged
    config         the trainer's settings; setting_types says of what type each is
    trainer        all of it, on transformers' Trainer, in one process or many
    launch         accelerate's configuration files for 1, 8 and 2 × 8 GPUs
    tiny           a model of a million parameters to try it on
    sight          its eyes: the token of a thing learns to tell its relations
    imitation      its start: imitation of noisy play
"""

from vagen_envs.extras import need

need("vagen_adapters.ppo", "ppo", "torch")
