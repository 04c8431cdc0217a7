"""Multi-turn PPO for vision-language agents: the only place in the project with an RL algorithm.

trajectories   what a batch of sampled episodes is, as tensors, and its checks
advantages     how good each token was: token, turn, Bi-Level and dual-discount GAE, GRPO, RLOO
"""
