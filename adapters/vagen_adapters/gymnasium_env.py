"""Observations as a conversation: what a chat model is sent, ready made.

>>> env = ChatObservation(gym.make("vagen/Sokoban-v0"))
>>> messages, info = env.reset(seed=7)
>>> reply = client.chat.completions.create(model=…, messages=messages)
"""

from __future__ import annotations

from typing import Any, SupportsFloat, cast

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from vagen_adapters.context import ContextPolicy, Message, chat_messages
from vagen_adapters.message_parts import PictureForm
from vagen_envs.core import Observation, Turn, VagenEnv
from vagen_envs.errors import ConfigError

ROLES = ("system", "user", "assistant")


class ChatSpace(gym.Space[list[Message]]):
    """Conversations: messages with a role, and content that is a string or a list of parts with a
    type.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> list[Message]:
        """A conversation that begins with a random number."""
        return [{"role": "user", "content": str(self.np_random.integers(2**31))}]

    def contains(self, x: Any) -> bool:
        """Whether `x` is a conversation."""
        return isinstance(x, list) and bool(x) and all(map(_is_message, x))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChatSpace)

    __hash__ = None  # type: ignore[assignment]


class ChatObservation(gym.Wrapper[list[Message], str, dict[str, Any], str], RecordConstructorArgs):
    """Observations become messages: the system prompt, the turns so far, and what is to be answered
    now.

    Works in `gym.make_vec(…, wrappers=[ChatObservation])`; async needs
    `vector_kwargs={"shared_memory": False}`, for conversations have no fixed size.

    Args:
        env: an environment of this package.
        context: how much of the past is shown, such as `"last:2"`; all of it by default. See
            `ContextPolicy`.
        pictures: `"data_url"` as OpenAI's `image_url` parts, `"pil"` as transformers' chat
            templates take them.
    """

    def __init__(
        self,
        env: gym.Env[dict[str, Any], str],
        context: str = "all",
        pictures: PictureForm = "data_url",
    ) -> None:
        RecordConstructorArgs.__init__(self, context=context, pictures=pictures)
        # Gymnasium has it observe what its wrapper does.
        super().__init__(cast("gym.Env[Any, str]", env))
        self.observation_space = ChatSpace()
        self.context = ContextPolicy.parse(context)
        if self.context.summary is not None:
            raise ConfigError(
                f"context={context!r}: nobody here writes summaries; use all, last:N or answers"
            )
        self.pictures = pictures
        self._turns: list[Turn] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Begin an episode, and a conversation."""
        _, info = self.env.reset(seed=seed, options=options)
        self._turns = []
        return self._messages(cast(VagenEnv, self.unwrapped).observed), info

    def step(self, action: str) -> tuple[list[Message], SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one turn; the reply and what came of it are added to the conversation."""
        _, reward, terminated, truncated, info = self.env.step(action)
        turn: Turn = info["turn"]
        self._turns.append(turn)
        return self._messages(turn.result), reward, terminated, truncated, info

    def _messages(self, now: Observation) -> list[Message]:
        system_prompt = cast(VagenEnv, self.unwrapped).system_prompt
        return chat_messages(
            system_prompt, self._turns, now, context=self.context, pictures=self.pictures
        )


def _is_message(x: Any) -> bool:
    if not isinstance(x, dict) or x.get("role") not in ROLES:
        return False
    content = x.get("content")
    return isinstance(content, str) or (
        isinstance(content, list)
        and all(isinstance(part, dict) and "type" in part for part in content)
    )
