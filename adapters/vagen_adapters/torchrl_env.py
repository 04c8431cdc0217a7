"""TorchRL: text is a non-tensor, the action is the reply's text.

Importing this module registers the text space with TorchRL, so that `torchrl.envs.GymWrapper`
accepts any environment of the package and your own.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import gymnasium as gym

import vagen_envs
from vagen_adapters.errors import not_importable
from vagen_envs.core import VagenEnv
from vagen_envs.spaces import UnicodeText

try:
    from tensordict import TensorDictBase
    from torchrl.data import NonTensor, TensorSpec
    from torchrl.envs import EnvBase, GymWrapper
    from torchrl.envs.gym_like import BaseInfoDictReader
    from torchrl.envs.libs.gym import register_gym_spec_conversion
except ImportError as error:
    raise not_importable("vagen_adapters.torchrl_env", "torchrl", "torchrl", error) from error


@register_gym_spec_conversion(UnicodeText)  # type: ignore[untyped-decorator]
def _text(_space: UnicodeText, device: Any = None, **_: Any) -> NonTensor:
    return NonTensor((), device=device, example_data="")


class InfoReader(BaseInfoDictReader):  # type: ignore[misc]
    """Reads `level` and `turn` from `info` as non-tensors; the turn is None after a reset."""

    info_spec: ClassVar[dict[str, TensorSpec]] = {
        "level": NonTensor((), example_data={}),
        "turn": NonTensor((), example_data=None),
    }

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        for name in self.info_spec:
            tensordict.set_non_tensor(name, info_dict.get(name))
        return tensordict


class VagenWrapper(GymWrapper):  # type: ignore[misc]
    """TorchRL's wrapper, which reads of `info` what is no number."""

    def auto_register_info_dict(
        self, ignore_private: bool = True, *, info_dict_reader: BaseInfoDictReader | None = None
    ) -> EnvBase:
        """As in TorchRL, with `InfoReader` by default."""
        return super().auto_register_info_dict(
            ignore_private, info_dict_reader=info_dict_reader or InfoReader()
        )

    @property
    def level(self) -> dict[str, Any]:
        """Split, seed and content hash of the current level."""
        return cast(VagenEnv, self._env.unwrapped).level


def make(env_id: str, **options: Any) -> VagenWrapper:
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
    return VagenWrapper(gym.make(env_id, **options))
