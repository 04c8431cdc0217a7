"""A family's chat template, asked for what stands before a reply and for what follows one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from vagen_adapters.errors import in_short
from vagen_adapters.ppo.thought_marks import NO_MARKS, Marks, marks_of

IMAGE_PLACEHOLDER = "<image>"
"""Stands in an environment's text where the picture belongs."""
REPLY = "\x02"
"""Stands for the reply while a template is rendered; no text of an environment holds it."""

_PROBES = ("Qsystem", "Quser", "Qreply", "Qlater")


class Conversation:
    """A chat template.

    Args:
        tokenizer: the family's.
        template: its Jinja source.
        image_token: what the family's processor replaces by the tokens of a picture.
        thinking: whether the model thinks before each reply, between marks of its family.

    Attributes:
        marks: those marks; empty without `thinking`.

    Raises:
        ValueError: the template doesn't render every part of a conversation, or knows no marks.
    """

    def __init__(
        self, tokenizer: Any, template: str, image_token: str, *, thinking: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self.image_token = image_token
        self._thinking = thinking
        self.marks = NO_MARKS
        # Whether a system message and a reply are strings, or lists of parts.
        self._of_text = True
        fault = self._fault()
        if fault is not None:
            self._of_text = False
            fault = self._fault()
        if fault is not None:
            raise ValueError(
                f"it drops a system prompt, observation, reply or picture ({image_token}){fault}"
            )
        if thinking:
            self.marks = self._marks()

    def prompt(
        self, system: str | None, observations: Sequence[str], replies: Sequence[str]
    ) -> str:
        """The text before the reply to the last of `observations`, each of the others with its
        reply.

        What opens the thoughts before that reply isn't in it.
        """
        text = self._rendered(system, observations, replies, thinking=self._thinking)
        return text.removesuffix(self.marks.opening)

    def after_reply(self, system: str | None, observation: str) -> str:
        """The text that follows a reply: what closes it, an observation, and what opens the next
        reply.
        """
        return self.prompt(system, [".", observation], [REPLY]).partition(REPLY)[2]

    def _rendered(
        self,
        system: str | None,
        observations: Sequence[str],
        replies: Sequence[str],
        *,
        thinking: bool,
    ) -> str:
        messages: list[dict[str, Any]] = []
        if system is not None:
            messages.append({"role": "system", "content": self._words(system)})
        for observation, reply in itertools.zip_longest(observations, replies):
            messages.append({"role": "user", "content": _parts(observation)})
            if reply is not None:
                messages.append({"role": "assistant", "content": self._words(reply)})
        text: str = self._tokenizer.apply_chat_template(
            messages,
            chat_template=self._template,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=thinking,
        )
        return text

    def _marks(self) -> Marks:
        """The marks of thoughts, told from what a prompt ends with while thinking is on and off."""
        user = _PROBES[1]
        on, off = (
            self._rendered(None, [user], [], thinking=thinking).rpartition(user)[2]
            for thinking in (True, False)
        )
        earlier = self._rendered(None, [user, "."], [REPLY], thinking=True)
        before_reply = earlier.partition(user)[2].partition(REPLY)[0]
        added = {str(token) for token in self._tokenizer.added_tokens_decoder.values()}
        return marks_of(on.removeprefix(before_reply), off.removeprefix(before_reply), added)

    def _fault(self) -> str | None:
        """What is wrong with a rendered conversation; None if it is whole."""
        system, user, reply, later = _PROBES
        try:
            text = self.prompt(
                system, [f"{IMAGE_PLACEHOLDER}{user}", f"{later}{IMAGE_PLACEHOLDER}"], [reply]
            )
        except Exception as error:  # a template raises whatever it likes
            return f", or fails: {in_short(error)}"
        in_order = [text.find(probe) for probe in _PROBES]
        once = all(text.count(probe) == 1 for probe in _PROBES) and "'type'" not in text
        whole = once and in_order == sorted(in_order) and text.count(self.image_token) == 2
        return None if whole else ""

    def _words(self, text: str) -> Any:
        return text if self._of_text else [{"type": "text", "text": text}]


def _parts(text: str) -> list[dict[str, str]]:
    """A message's text cut at its pictures, as chat templates take it."""
    parts: list[dict[str, str]] = []
    for number, piece in enumerate(text.split(IMAGE_PLACEHOLDER)):
        if number:
            parts.append({"type": "image"})
        if piece:
            parts.append({"type": "text", "text": piece})
    return parts or [{"type": "text", "text": ""}]
