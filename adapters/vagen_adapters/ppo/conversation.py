"""A family's chat template, asked for what stands before a reply and for what follows one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from vagen_adapters.errors import in_short

IMAGE_PLACEHOLDER = "<image>"
"""Stands in an environment's text where the picture belongs."""
REPLY = "\x02"
"""Stands for the reply while a template is rendered; no text of an environment holds it."""

_PROBES = ("Qsystem", "Quser", "Qreply", "Qlater")


class Conversation:
    """A chat template.

    `template` is its Jinja source. The family's processor replaces `image_token` by the tokens of a
    picture.

    Raises:
        ValueError: it doesn't render every part of a conversation.
    """

    def __init__(self, tokenizer: Any, template: str, image_token: str) -> None:
        self._tokenizer, self._template, self.image_token, self._fault = (
            tokenizer,
            template,
            image_token,
            "",
        )
        for self._of_text in (
            True,
            False,
        ):  # whether a system message and a reply are strings, or lists of parts
            if self._is_whole():
                return
        raise ValueError(
            f"it drops a system prompt, observation, reply or picture ({image_token}){self._fault}"
        )

    def prompt(
        self, system: str | None, observations: Sequence[str], replies: Sequence[str]
    ) -> str:
        """The text before the reply to the last of `observations`, each of the others with its
        reply.
        """
        messages: list[dict[str, Any]] = []
        if system is not None:
            messages.append({"role": "system", "content": self._words(system)})
        for observation, reply in itertools.zip_longest(observations, replies):
            messages.append({"role": "user", "content": _parts(observation)})
            if reply is not None:
                messages.append({"role": "assistant", "content": self._words(reply)})
        # Environments ask for thoughts in tags of their own, so none are opened in the reply's
        # name.
        text: str = self._tokenizer.apply_chat_template(
            messages,
            chat_template=self._template,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        return text

    def after_reply(self, system: str | None, observation: str) -> str:
        """The text that follows a reply: what closes it, an observation, and what opens the next
        reply.
        """
        return self.prompt(system, [".", observation], [REPLY]).partition(REPLY)[2]

    def _is_whole(self) -> bool:
        system, user, reply, later = _PROBES
        try:
            text = self.prompt(
                system, [f"{IMAGE_PLACEHOLDER}{user}", f"{later}{IMAGE_PLACEHOLDER}"], [reply]
            )
        except Exception as error:  # a template raises whatever it likes
            self._fault = f", or fails: {in_short(error)}"
            return False
        in_order = [text.find(probe) for probe in _PROBES]
        once = all(text.count(probe) == 1 for probe in _PROBES) and "'type'" not in text
        return once and in_order == sorted(in_order) and text.count(self.image_token) == 2

    def _words(self, text: str) -> Any:
        return text if self._of_text else [{"type": "text", "text": text}]


def _parts(text: str) -> list[dict[str, str]]:
    """A message's text cut at its pictures, as chat templates take it."""
    pairs = [
        ({"type": "image"}, {"type": "text", "text": piece})
        for piece in text.split(IMAGE_PLACEHOLDER)
    ]
    parts = [part for pair in pairs for part in pair][1:]
    return [part for part in parts if part.get("text") != ""] or parts
