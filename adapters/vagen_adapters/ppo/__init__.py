"""Multi-turn PPO for vision-language agents: the only place in the project with an RL algorithm.

Begin with `trainer`, which ties the modules together, and `rollout_worker`, which plays for it.
Each module says at its top what it is for; `launch` has accelerate's configuration files.
"""

from vagen_envs.extras import need

need("vagen_adapters.ppo", "ppo", "torch")

CARD = "training.json"
"""The file beside a policy's weights that says how it was trained; see
`saving.SavingTrainer.card`.
"""
