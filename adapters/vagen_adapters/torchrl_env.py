"""Environments of this package as torchrl's: texts are non-tensors, the action is the reply's text.

Importing this module teaches torchrl the text space, so that `torchrl.envs.GymWrapper` takes any environment of the
package, one of yours included.
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
    """An environment as a torchrl one.

    `reset` gives `text` (a string) and, unless `observation="text"`, `image` (uint8, height x width x 3); `action` is
    what the model wrote; `reward`, `terminated` and `truncated` are tensors of shape (1,). `reset(seed=…)` plays that
    level; `set_seed` plays it at once, and the next `reset` the level after it. torchrl's own `GymEnv(env_id)` passes a
    `frameskip` that no environment of ours knows.

    Args:
        env_id: such as `"vagen/Sokoban-v0"`.
        options: for `gym.make`.
    """
    gym.register_envs(vagen_envs)
    return GymWrapper(gym.make(env_id, **options))
