"""A family's chat template, asked for what stands before a reply and for what follows one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

IMAGE_PLACEHOLDER = "<image>"
"""Stands in an environment's text where the picture belongs."""
REPLY = "\x02"
"""Stands for the reply while a template is rendered; no text of an environment holds it."""

_PROBES = ("Qsystem", "Quser", "Qreply", "Qlater")


@dataclass(frozen=True)
class Style:
    """How a template takes messages; families differ, and none says it.

    Attributes:
        of_text: whether a system message and a reply are strings, or lists of parts.
        of_user: whether an observation is a list of parts, or a string with the family's own placeholder in it.
        system: whether there is a role for the system prompt, or it stands before the first observation.
    """

    of_text: bool
    of_user: bool
    system: bool


class Conversation:
    """A chat template.

    Args:
        tokenizer: which renders it.
        template: Jinja.
        image_token: what the family's processor replaces by a picture's tokens.

    Attributes:
        style: the first one that the template renders whole.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, tokenizer: Any, template: str, image_token: str) -> None:
        self._tokenizer, self._template, self.image_token = tokenizer, template, image_token
        style = next(self._styles_that_work(), None)
        if style is None:
            raise ValueError(
                f"it drops a system prompt, an observation, a reply, or a picture's placeholder, {image_token}"
            )
        self.style = style

    def prompt(self, system: str | None, observations: Sequence[str], replies: Sequence[str]) -> str:
        """The text before the reply to the last of `observations`, each of the others with its reply."""
        return self._render(self.style, system, observations, replies)

    def after_reply(self, system: str | None, observation: str) -> str:
        """The text that follows a reply: what closes it, an observation, and what opens the next reply."""
        found = self._render(self.style, system, [".", observation], [REPLY])
        return found.partition(REPLY)[2]

    def _styles_that_work(self) -> Iterator[Style]:
        system, user, reply, later = _PROBES
        for has_system, of_user, of_text in itertools.product((True, False), (True, False), (True, False)):
            style = Style(of_text, of_user, has_system)
            try:
                text = self._render(
                    style, system, [f"{IMAGE_PLACEHOLDER}{user}", f"{later}{IMAGE_PLACEHOLDER}"], [reply]
                )
            except Exception:  # noqa: S112 - a template raises whatever it likes
                continue
            in_order = [text.find(probe) for probe in _PROBES]
            once = all(text.count(probe) == 1 for probe in _PROBES) and "'type'" not in text
            if once and of_user and self.image_token not in text:
                return  # a template for words alone, in which a placeholder would stand without what surrounds it
            if once and in_order == sorted(in_order) and text.count(self.image_token) == 2:
                yield style

    def _render(self, style: Style, system: str | None, observations: Sequence[str], replies: Sequence[str]) -> str:
        def of_text(text: str) -> Any:
            return text if style.of_text else [{"type": "text", "text": text}]

        observations = list(observations)
        messages: list[dict[str, Any]] = []
        if system is not None and style.system:
            messages.append({"role": "system", "content": of_text(system)})
        elif system is not None:
            observations[0] = f"{system}\n\n{observations[0]}"
        for observation, reply in itertools.zip_longest(observations, replies):
            messages.append({"role": "user", "content": self._content(style, observation)})
            if reply is not None:
                messages.append({"role": "assistant", "content": of_text(reply)})
        # Environments ask for thoughts in tags of their own, so none are opened in the reply's name.
        text: str = self._tokenizer.apply_chat_template(
            messages, chat_template=self._template, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return text

    def _content(self, style: Style, text: str) -> Any:
        """A message's text cut at its pictures, as chat templates take it."""
        if not style.of_user:
            return text.replace(IMAGE_PLACEHOLDER, self.image_token)
        parts: list[dict[str, str]] = []
        for position, piece in enumerate(text.split(IMAGE_PLACEHOLDER)):
            if position:
                parts.append({"type": "image"})
            if piece:
                parts.append({"type": "text", "text": piece})
        return parts or [{"type": "text", "text": ""}]
