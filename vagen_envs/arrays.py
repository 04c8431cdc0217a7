"""What Gymnasium's `NumpyToTorch` and `ArrayConversion` leave as it is: texts, and the records in
`info`.

Both wrappers convert all that an environment gives. For a text they never end, and for a record
they raise (seen with Gymnasium 1.4.0). Their function is a `singledispatch`, so a type can say for
itself that there is nothing to convert.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from vagen_envs.spaces import SharedTexts
from vagen_envs.turn import State, Turn


def register_conversions() -> None:
    """Register the types, if the wrappers' own dependency (`gymnasium[array-api]`) is there."""
    with contextlib.suppress(ImportError, gym.error.DependencyNotInstalled):
        from gymnasium.wrappers.array_conversion import array_conversion

        of_iterables = array_conversion.dispatch(Iterable)

        # The wrappers name these arguments.
        def unchanged(value: Any, xp: Any, device: Any = None) -> Any:  # noqa: ARG001
            return value

        def texts(value: SharedTexts, xp: Any, device: Any = None) -> tuple[str, ...]:  # noqa: ARG001
            return tuple(value)

        def array(value: np.ndarray[Any, Any], xp: Any, device: Any = None) -> Any:
            """An array, unless it holds the records of several environments: no library has such
            arrays.
            """
            return value if value.dtype == object else of_iterables(value, xp, device)

        for kind in (str, State, Turn):
            array_conversion.register(kind, unchanged)
        array_conversion.register(SharedTexts, texts)
        array_conversion.register(np.ndarray, array)
