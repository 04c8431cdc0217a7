"""The advantage estimators by name, and which of them need a critic or groups of episodes."""

from __future__ import annotations

from typing import Any, get_type_hints

from vagen_adapters.ppo import advantages, group_advantages

WITH_CRITIC = (
    "token_gae",
    "dual_discount_gae",
    "bilevel_gae",
    "bilevel_gae_released",
    "bilevel_gae_mixed",
    "turn_gae",
)
IN_GROUPS = ("grpo", "rloo", "rloo_turns", "gigpo")
WITHOUT_CRITIC = ("vine", *IN_GROUPS)
ESTIMATORS = {
    **{name: getattr(advantages, name) for name in (*WITH_CRITIC, "vine")},
    **{name: getattr(group_advantages, name) for name in IN_GROUPS},
}


def entries_of(advantage: str) -> dict[str, Any]:
    """The entries of `advantage_settings` that an estimator takes, and their types."""
    hints = get_type_hints(ESTIMATORS[advantage], include_extras=True)
    return {name: kind for name, kind in hints.items() if name not in ("batch", "return")}
