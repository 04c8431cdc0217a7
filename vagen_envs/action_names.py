"""The names of an environment's actions, as its configuration gives them."""

from __future__ import annotations

from vagen_envs.config import EnvConfig
from vagen_envs.errors import ConfigError, shown
from vagen_envs.replies import Action, ActionGrammar, Names


def renamed(actions: ActionGrammar, config: EnvConfig, env_id: str) -> ActionGrammar:
    """The actions under the names of `action_names`.

    Raises:
        ConfigError: the actions have no names, or the new ones aren't valid.
    """
    called = config.action_names
    if not called:
        return actions
    if not isinstance(actions, Names):
        raise ConfigError(
            f"{env_id}: action_names={shown(called)} is not valid: actions here aren't names"
        )
    try:
        return Names(*actions.names, called=called, exact=actions.exact)
    except ValueError as error:
        raise ConfigError(f"{env_id}: {error}") from None


def default_actions(actions: ActionGrammar, config: EnvConfig, env_id: str) -> tuple[Action, ...]:
    """What a reply without a valid action executes. Raises ConfigError if it isn't an action."""
    name = config.default_action
    if not name:
        return ()
    found = actions.read(name, 0, 0) if isinstance(actions, Names) else None
    if not isinstance(found, Action):
        raise ConfigError(
            f"{env_id}: default_action={shown(name)} is not valid: it must be one of the "
            f"names of actions ({actions.summary()})"
        )
    return (found,)
