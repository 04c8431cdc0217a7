"""Multi-turn PPO for vision-language agents: the only place in the project with an RL algorithm.

In the order of a rollout's way through it:

    codec          observations to tokens and picture features, replies to text
    generation     replies from a model: the interface of back-ends, and transformers'
    episodes       what was played, and the token sequences that are trained on
    rollout        many episodes at once
    actor_critic   policy and critic; log-probabilities and values of tokens
    trajectories   a batch of episodes as tensors, and its checks
    packing        their sampled tokens end to end, and estimates back in place
    advantages     how good each token was: token, turn, Bi-Level and dual-discount GAE, GRPO, RLOO
    losses         what is minimised
    metrics        what is logged
    config         the trainer's settings
    trainer        all of it, on transformers' Trainer
    tiny           a model of a million parameters to try it on
    imitation      its start: imitation of noisy play
"""
