"""Episodes as chat messages, and how much of the past these show: one policy for benchmark, trainer
and adapters.

A policy has one short text form, used on the command line, in protocol files, in run folders and in
training configurations: parts joined by commas, such as `last:2,answers` or
`summary:5,reasoning=keep`.

    all                 every earlier turn (the default)
    last:N              the latest N earlier turns (Verlog, section on memory), 0 for none
    summary:K           after every K turns the model writes a summary, which replaces them
                        (compaction)
    summary:K:TOKENS    the same with a limit of tokens for each summary (256 by default)
    answers             earlier replies are reduced to their answers
    current-picture     only the current picture; earlier observations keep their text
    reasoning=drop      hidden reasoning is never sent back (the default)
    reasoning=turn      it is sent back until the next observation: in the request for a summary, or
                        an agent's own
    reasoning=keep      it is sent back with every earlier reply that is shown

Everything here is pure: the same episode and policy give the same messages.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from vagen_adapters.message_parts import PictureForm, observation_parts, without_placeholder
from vagen_envs.bounds import OrNone, Whole, bounds_of
from vagen_envs.errors import ConfigError, shown
from vagen_envs.turn import IMAGE_PLACEHOLDER, Observation, Turn

Message = dict[str, Any]
HiddenReasoning = Literal["drop", "turn", "keep"]
SUMMARY_TOKENS = 256
EARLIER_PICTURE = "(earlier picture, no longer shown)"
SUMMARY_REQUEST = (
    "The turns above will no longer be shown to you. Write a summary of at most {tokens} tokens "
    "of what you need to finish the task: what you saw and where it is, what you did and what "
    "came of it, and your plan. Write the summary only; no action is executed now."
)
SUMMARY_SHOWN = "Your summary of turns 1 to {turns}:\n{summary}\n\n"
HIDDEN = "hidden"
"""The key of a message under which a client finds the reasoning that its provider gave with the
reply.
"""

_FORMS = (
    "all, last:N, summary:K, summary:K:TOKENS, answers, current-picture, reasoning=drop, "
    "reasoning=turn, reasoning=keep"
)
_PART = re.compile(
    r"(?P<all>all)|last:(?P<turns>\d{1,6})|summary:(?P<summary>\d{1,6})(?::(?P<summary_tokens>\d{1,6}))?|"
    r"(?P<answers>answers)|(?P<current_picture>current-picture)|reasoning=(?P<reasoning>drop|turn|keep)"
)


@dataclass(frozen=True, slots=True)
class ContextPolicy:
    """How much of an episode's past a prompt shows. `ContextPolicy.parse` reads the text form,
    `str` writes it.

    The fields are the parts of the text form: `turns` is the N of `last:N`, at least 0, and
    `summary` the K of `summary:K`, at least 1; both are `None` without that part.

    Raises:
        ConfigError: a value is out of range, or two of them contradict each other.
    """

    turns: Annotated[int | None, OrNone(Whole(0))] = None
    answers: bool = False
    current_picture: bool = False
    summary: Annotated[int | None, OrNone(Whole(1))] = None
    summary_tokens: Annotated[int, Whole(1)] = SUMMARY_TOKENS
    reasoning: HiddenReasoning = "drop"

    def __post_init__(self) -> None:
        for name, (bound, _) in bounds_of(ContextPolicy).items():
            value = getattr(self, name)
            if not bound.admits(value):
                raise ConfigError(
                    f"context: {name}={shown(value)} is not valid: it must be {bound}"
                )
        if self.turns is not None and self.summary is not None:
            raise ConfigError(
                "context: last:N and summary:K both say which turns are shown; give one of them"
            )
        if self.answers and self.reasoning == "keep":
            raise ConfigError(
                "context: answers drops the reasoning of earlier replies and reasoning=keep "
                "keeps it; give one of them"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form.

        Raises:
            ConfigError: a part is unknown or given twice, or parts contradict each other.
        """
        fields: dict[str, Any] = {}
        for part in map(str.strip, str(text).split(",")):
            found = _PART.fullmatch(part)
            if found is None:
                near = difflib.get_close_matches(part[:40], _FORMS.split(", "), n=1, cutoff=0.5)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ConfigError(
                    f"context {shown(part)} is not valid.{hint} Known, joined by commas: {_FORMS}"
                )
            given = {name: value for name, value in found.groupdict().items() if value is not None}
            if given.keys() & fields.keys():
                raise ConfigError(
                    f"context {shown(text)} is not valid: it gives {part!r} and another such part"
                )
            for name, value in given.items():
                if value.isdigit():
                    fields[name] = int(value)
                else:
                    fields[name] = value if name == "reasoning" else True
        if fields.pop("all", False) and fields.keys() & {"turns", "summary"}:
            raise ConfigError(
                f"context {shown(text)} is not valid: all beside last:N or summary:K; give one "
                "of them"
            )
        return cls(**fields)

    def __str__(self) -> str:
        tokens = f":{self.summary_tokens}" if self.summary_tokens != SUMMARY_TOKENS else ""
        parts = [
            "all" if self.grows and self.summary is None else "",
            f"last:{self.turns}" if self.turns is not None else "",
            f"summary:{self.summary}{tokens}" if self.summary is not None else "",
            "answers" if self.answers else "",
            "current-picture" if self.current_picture else "",
            f"reasoning={self.reasoning}" if self.reasoning != "drop" else "",
        ]
        return ",".join(filter(None, parts))

    @property
    def grows(self) -> bool:
        """Whether a turn's prompt begins with the one before it and its reply, summaries aside."""
        return self.turns is None and not self.answers and not self.current_picture

    def first_shown(self, now: int) -> int:
        """The first turn that the prompt of turn `now` shows; `now` itself where it shows no
        earlier one.
        """
        if self.summary is not None:
            return now - now % self.summary
        return 0 if self.turns is None else max(0, now - self.turns)

    def summarises_before(self, now: int) -> bool:
        """Whether the model writes a summary before turn `now`."""
        return self.summary is not None and now > 0 and now % self.summary == 0

    def sequences(self, turns: int) -> Iterator[tuple[int, int]]:
        """First turn and end of each conversation that shows the replies to `turns` turns once, as
        they were written.

        One for the whole episode, one for the turns between two summaries, or one a turn.
        """
        step = (self.summary or max(turns, 1)) if self.grows else 1
        for start in range(0, turns, step):
            yield start, min(start + step, turns)

    def in_prompt(
        self, observation: Observation, now: int, *, earlier: bool, summaries: Mapping[int, str]
    ) -> Observation:
        """The observation of turn `now` as a prompt shows it.

        Args:
            observation: as the environment gave it.
            now: its turn.
            earlier: whether a later turn is answered.
            summaries: by the turn before which each was written.

        Raises:
            ConfigError: the summary before the turn is missing.
        """
        text = observation.text
        picture = observation.picture
        if earlier and self.current_picture and picture is not None:
            before, _, after = text.rpartition(IMAGE_PLACEHOLDER)
            text = f"{before}{EARLIER_PICTURE}{after}"
            picture = None
        if self.summarises_before(now):
            if now not in summaries:
                raise ConfigError(
                    f"the summary before turn {now + 1} is missing: {self} needs an episode that "
                    "was played with it"
                )
            summary = without_placeholder(summaries[now])
            text = SUMMARY_SHOWN.format(turns=now, summary=summary) + text
        return replace(observation, text=text, picture=picture)


def chat_messages(
    system_prompt: str,
    turns: Sequence[Turn],
    now: Observation | None = None,
    *,
    context: ContextPolicy | None = None,
    summaries: Mapping[int, str] | None = None,
    hidden: Sequence[Any] = (),
    pictures: PictureForm = "data_url",
    answer_tag: str = "answer",
) -> list[Message]:
    """An episode, or its latest part, as chat messages.

    Args:
        system_prompt: the environment's.
        turns: the turns played so far, in order.
        now: the observation that the model is to answer. Without it the messages end with the last
            turn's reply, which is never shortened, as a training sample needs it.
        context: how much of the past is shown; all of it by default.
        summaries: the model's, by the number of turns that were played before each.
        hidden: for each turn the hidden reasoning as its provider gave it, or `None`.
        pictures: `"data_url"` writes pictures as OpenAI's `image_url` parts (PNG), `"pil"` as
            `{"type": "image", "image": PIL.Image}` parts, as transformers' chat templates take
            them.
        answer_tag: the environment's tag of the answer, for earlier replies that are reduced to it.

    Returns:
        `{"role": …, "content": …}` messages: one `system`, then `user` (a list of parts) and
        `assistant` (a string) in turn. Each picture stands where its `<image>` stood. Hidden
        reasoning that the policy keeps stands under `hidden` beside its reply's content.

    Raises:
        ConfigError: a summary that the policy shows is missing.
    """
    context = context or ContextPolicy()
    present = len(turns) if now is not None else len(turns) - 1
    observations = [turn.observed for turn in turns] + ([now] if now is not None else [])
    messages: list[Message] = [{"role": "system", "content": system_prompt}]
    for number in range(context.first_shown(max(present, 0)), len(observations)):
        seen = context.in_prompt(
            observations[number], number, earlier=number < present, summaries=summaries or {}
        )
        messages.append({"role": "user", "content": observation_parts(seen, pictures)})
        if number < len(turns):
            short = context.answers and number < present
            text = turns[number].reply
            if short:
                text = f"<{answer_tag}>{turns[number].parsed.answer or ''}</{answer_tag}>"
            reply: Message = {"role": "assistant", "content": text}
            if context.reasoning == "keep" and number < len(hidden) and hidden[number] is not None:
                reply[HIDDEN] = hidden[number]
            messages.append(reply)
    return messages


def summary_messages(
    system_prompt: str,
    turns: Sequence[Turn],
    *,
    context: ContextPolicy,
    hidden: Sequence[Any] = (),
    **how: Any,
) -> list[Message]:
    """The messages that ask the model for a summary of the latest turns; arguments as for
    `chat_messages`.
    """
    messages = chat_messages(system_prompt, turns, context=context, hidden=hidden, **how)
    if context.reasoning == "turn" and hidden and hidden[-1] is not None:
        messages[-1][HIDDEN] = hidden[-1]
    return [
        *messages,
        {"role": "user", "content": [{"type": "text", "text": summary_request(context)}]},
    ]


def summary_request(context: ContextPolicy) -> str:
    """The text that asks for a summary."""
    return SUMMARY_REQUEST.format(tokens=context.summary_tokens)
