"""TorchRL: text is a non-tensor, the action is the reply's text.

Importing this module registers the text space with TorchRL, so that `torchrl.envs.GymWrapper`
accepts any environment of the package and your own.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

import vagen_envs
from vagen_adapters.errors import not_importable
from vagen_envs.spaces import UnicodeText

try:
    from torchrl.data import NonTensor
    from torchrl.envs import GymWrapper
    from torchrl.envs.libs.gym import register_gym_spec_conversion
except ImportError as error:
    raise not_importable("vagen_adapters.torchrl_env", "torchrl", "torchrl", error) from error


@register_gym_spec_conversion(UnicodeText)  # type: ignore[untyped-decorator]
def _text(_space: UnicodeText, device: Any = None, **_: Any) -> NonTensor:
    return NonTensor((), device=device, example_data="")


def make(env_id: str, **options: Any) -> GymWrapper:
    """Make an environment for TorchRL.

    `reset` returns `text` (a string) and, unless `observation="text"`, `image` (uint8, height ×
    width × 3). `action` is the reply; `reward`, `terminated` and `truncated` are tensors of shape
    (1,). `reset(seed=…)` plays that level. `set_seed` resets at once, so the next `reset` plays the
    level after it. Use this function instead of `GymEnv(env_id)`, which passes `frameskip` to every
    environment.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        options: for `gym.make`.
    """
    gym.register_envs(vagen_envs)
    return GymWrapper(gym.make(env_id, **options))
