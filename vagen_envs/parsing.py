"""From a model's text to a `ParsedTurn`, and back. Pure, total, linear in the text.

One `Grammar` per configuration writes the format for the prompt, renders replies, parses them and
checks the format, so that these cannot disagree. Formats: VAGEN (paper), section 2.2 and table 5.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from vagen_envs.actions import Action, ActionGrammar, Refused
from vagen_envs.parsed import FORMAT_CODES, REFUSED_CODES, ParsedTurn, Problem
from vagen_envs.tags import answer_span, field_text, find_tags, format_problems, native_thinking_end, without_tags

__all__ = [
    "FORMAT_CODES",
    "STRATEGIES",
    "Grammar",
    "Layout",
    "NativeThinking",
    "ParsedTurn",
    "Parsing",
    "Problem",
    "Reasoning",
    "Strategy",
]

Strategy = Literal["no_think", "free_think", "grounding", "world_modeling", "grounding_world_modeling"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

Layout = Literal["nested", "flat"]
Parsing = Literal["strict", "lenient"]
Reasoning = Literal["optional", "required"]
NativeThinking = Literal["reject", "allow"]

_ANY_TAG = re.compile(r"(</?(?:think|observation|reasoning|prediction|answer)>)", re.IGNORECASE)

_FIELDS: dict[Strategy, tuple[str, ...]] = {
    "no_think": (),
    "free_think": ("think",),
    "grounding": ("observation", "reasoning"),
    "world_modeling": ("reasoning", "prediction"),
    "grounding_world_modeling": ("observation", "reasoning", "prediction"),
}


@dataclass(frozen=True)
class Grammar:
    """The format of a reply and of its actions.

    Attributes:
        actions: what an answer may say.
        strategy: which reasoning fields a reply has (VAGEN, section 2.2).
        separator: stands between actions.
        max_actions: actions beyond this many are dropped and marked.
        layout: `"nested"` is the paper's (table 5): the fields inside `<think>`, then the answer.
            `"flat"` is the order of VAGEN's 2026 code: `<observation>`, `<think>` for the reasoning,
            `<answer>`, `<prediction>`.
        reasoning: whether the reasoning field may be left out. Table 5 has it, the templates of
            section 2.2 don't; so it is in every prompt and optional when reading, by default.
        parsing: `"strict"` executes nothing unless the reply is well formed. `"lenient"` executes the
            answer of a malformed reply too, except under `no_think` and `free_think`, which execute
            nothing then, as VAGEN's released code does. The format reward is strict in both.
        native_thinking: whether the text a thinking model writes before its reply (up to a closing
            `</think>` of its own) breaks the format. It is set aside either way.
    """

    actions: ActionGrammar
    strategy: Strategy = "grounding_world_modeling"
    separator: str = ","
    max_actions: int = 1
    layout: Layout = "nested"
    reasoning: Reasoning = "optional"
    parsing: Parsing = "lenient"
    native_thinking: NativeThinking = "reject"
    _places: dict[tuple[str, ...], dict[int, str]] = field(init=False, repr=False)
    _leaves: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy {self.strategy!r}; use one of {', '.join(STRATEGIES)}")
        if not self.separator or "<" in self.separator or self.max_actions < 1:
            raise ValueError(
                f"separator {self.separator!r} must be non-empty without '<', max_actions {self.max_actions} at least 1"
            )
        reasoning = "think" if self.layout == "flat" else "reasoning"
        leaves = {reasoning if name == "reasoning" else name: name for name in _FIELDS[self.strategy]}
        object.__setattr__(self, "_leaves", {**leaves, "answer": "answer"})
        full = self._tags(leaves)
        without = self._tags([tag for tag, name in leaves.items() if name != "reasoning"])
        sequences = (full, without) if self.reasoning == "optional" else (full,)
        object.__setattr__(self, "_places", {tags: self._places_in(tags) for tags in sequences})

    def _tags(self, leaves: Collection[str]) -> tuple[str, ...]:
        """The well-formed sequence of tags with texts in these, such as `("<think>", "</think>", …)`."""

        def pair(name: str) -> list[str]:
            return [f"<{name}>", f"</{name}>"]

        if self.layout == "flat":
            order = [name for name in leaves if name != "prediction"]
            order += ["answer"] + ["prediction"] * ("prediction" in leaves)
            return tuple(tag for name in order for tag in pair(name))
        inner = [tag for name in leaves if name != "think" for tag in pair(name)]
        think = ["<think>", *inner, "</think>"] if leaves else []
        return (*think, "<answer>", "</answer>")

    def _places_in(self, tags: tuple[str, ...]) -> dict[int, str]:
        """Which fields stand where in a text that is split at these tags: text, tag, text, tag, …, text."""
        neighbours = enumerate(itertools.pairwise(tags), start=1)
        return {2 * i: self._leaves[tag[1:-1]] for i, (tag, following) in neighbours if following == f"</{tag[1:]}"}

    # -- writing ---------------------------------------------------------------------------------

    def template(self) -> str:
        """The format as a prompt shows it, with `...` for every field."""
        return self._fill(lambda _: "...")

    def render(
        self,
        actions: Sequence[str],
        *,
        observation: str = "",
        reasoning: str = "",
        prediction: str = "",
        think: str | None = None,
    ) -> str:
        """A well-formed reply with those of the fields that the strategy has.

        `think` stands for the free text of `free_think`; without it, observation and reasoning do.
        """
        if think is None:
            think = " ".join(part for part in (observation, reasoning) if part)
        said = {"observation": observation, "reasoning": reasoning, "prediction": prediction, "think": think}
        said["answer"] = self.separator.join(actions)
        return self._fill(said.__getitem__)

    def _fill(self, text_of: Callable[[str], str]) -> str:
        """The full sequence of tags with the text of each field."""
        tags, places = next(iter(self._places.items()))
        return "".join((text_of(places[2 * i]) if 2 * i in places else "") + tag for i, tag in enumerate(tags))

    # -- reading ---------------------------------------------------------------------------------

    def parse(self, text: str) -> ParsedTurn:
        """Read a reply. Never raises on a string; takes time linear in its length."""
        pieces = _ANY_TAG.split(text)
        places = self._places.get(tuple(pieces[1::2]))
        if places is not None:
            parsed = self._read_exact(text, pieces, places)
            if parsed is not None:
                return parsed
        return self._read_any(text)

    def _read_exact(self, text: str, pieces: list[str], places: dict[int, str]) -> ParsedTurn | None:
        """The quick way for a reply whose tags are exactly those wanted. `None` if its texts are amiss."""
        said: dict[str, str] = {}
        start = end = 0
        for i in range(0, len(pieces), 2):
            name, piece = places.get(i), pieces[i].strip()
            if name is None:
                if piece:
                    return None
                continue
            said[name] = piece
            if name == "answer":
                start = sum(map(len, pieces[:i]))
                end = start + len(pieces[i])
            elif not piece:
                return None
        problems: list[Problem] = []
        actions = self._read_actions(text, start, end, problems)
        return _turn(said, None, actions, True, problems)

    def _read_any(self, text: str) -> ParsedTurn:
        """The careful way, which names every problem."""
        tags = find_tags(text)
        sequences = tuple(self._places)
        problems: list[Problem] = []
        begin = native_thinking_end(text, tags, think_first=sequences[0][0] == "<think>")
        native = None
        if begin:
            native = without_tags(text[:begin]).strip()
            tags = [tag for tag in tags if tag.start >= begin]
            if self.native_thinking == "reject":
                message = "text of a thinking model stands before the reply"
                problems.append(Problem("native_thinking", message, 0, begin))
        if self.strategy in ("no_think", "free_think"):  # their text is free, other tags in it are just text
            tags = [tag for tag in tags if tag.name in ("think", "answer")]
        problems += format_problems(text, tags, begin, sequences, self.template())
        well_formed = not problems
        answer = answer_span(tags)
        actions: tuple[Action, ...] = ()
        if answer is None:
            problems.append(Problem("no_answer", "there is no <answer>…</answer>", begin, len(text)))
            well_formed = False
        elif not well_formed and (self.parsing == "strict" or self.strategy in ("no_think", "free_think")):
            problems.append(Problem("withheld", "nothing was executed because the format is broken", *answer))
        else:
            actions = self._read_actions(text, *answer, problems)
        said = {name: field_text(text, tags, tag) for tag, name in self._leaves.items()}
        said["answer"] = None if answer is None else text[answer[0] : answer[1]].strip()
        return _turn(said, native, actions, well_formed, problems)

    def _read_actions(self, text: str, start: int, end: int, problems: list[Problem]) -> tuple[Action, ...]:
        actions: list[Action] = []
        for piece, left, right in self._pieces(text, start, end):
            if len(actions) == self.max_actions:
                problems.append(
                    Problem("too_many_actions", f"only the first {self.max_actions} action(s) count", left, end)
                )
                break
            read = self.actions.read(piece, left, right)
            if isinstance(read, Refused):
                problems.append(Problem(read.code, read.message, left, right))
                break
            actions.append(read)
        if not actions and not (problems and problems[-1].code in REFUSED_CODES):
            problems.append(Problem("no_action", "the answer has no action", start, end))
        return tuple(actions)

    def _pieces(self, text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The non-empty pieces between separators, stripped, with their spans."""
        left = start
        while left <= end:
            right = text.find(self.separator, left, end)
            if right < 0:
                right = end
            piece = text[left:right].replace("<image>", "").strip()
            if piece:
                yield piece, left, right
            left = right + len(self.separator)


def _turn(
    said: Mapping[str, str | None],
    native_thinking: str | None,
    actions: tuple[Action, ...],
    well_formed: bool,
    problems: Sequence[Problem],
) -> ParsedTurn:
    get = said.get
    return ParsedTurn(
        get("observation"), get("reasoning"), get("prediction"), get("think"), get("answer"), native_thinking,
        actions, well_formed, tuple(problems),
    )  # fmt: skip
