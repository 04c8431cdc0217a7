"""From a model's text to a `ParsedTurn`, and back. Pure, total, linear in the text.

One `Grammar` per configuration writes the format for the prompt, renders replies, parses them and
checks the format, so that these cannot disagree. Formats: VAGEN (paper), section 2.2 and table 5.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vagen_envs.actions import Action, ActionGrammar, Refused

Strategy = Literal["no_think", "free_think", "grounding", "world_modeling", "grounding_world_modeling"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

Layout = Literal["nested", "flat"]
Parsing = Literal["strict", "lenient"]
Reasoning = Literal["optional", "required"]
NativeThinking = Literal["reject", "allow"]

FORMAT_CODES = frozenset({
    "no_answer", "missing_tag", "unclosed_tag", "repeated_tag", "unexpected_tag", "tag_order", "tag_case",
    "text_outside", "empty_field", "native_thinking", "too_long",
})  # fmt: skip
"""Problems that break the format. The other codes are about actions: `no_action`, `unknown_action`,
`bad_argument`, `too_many_actions`, `withheld`."""

_TAG = re.compile(r"<(/?)(think|observation|reasoning|prediction|answer)>", re.IGNORECASE)
_ANY_TAG = re.compile(r"(</?(?:think|observation|reasoning|prediction|answer)>)", re.IGNORECASE)

_FIELDS: dict[Strategy, tuple[str, ...]] = {
    "no_think": (),
    "free_think": ("think",),
    "grounding": ("observation", "reasoning"),
    "world_modeling": ("reasoning", "prediction"),
    "grounding_world_modeling": ("observation", "reasoning", "prediction"),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a reply.

    Attributes:
        code: one of `FORMAT_CODES` or of the action codes.
        message: what is wrong, in words a model can act on.
        start, end: half-open span of code points in the reply.
    """

    code: str
    message: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """What a reply says.

    Attributes:
        observation, reasoning, prediction, think: stripped text of the fields, `None` where absent.
            `think` is the free text of `free_think`.
        answer: stripped text of the answer that was read, `None` where there is none.
        native_thinking: what a thinking model wrote before its reply proper, else `None`.
        actions: what will be executed, at most the maximum; ends before the first refused piece.
        well_formed: the tags are exactly those of the format, in order, with nothing outside.
        problems: everything found wrong, in the order of the reply.
    """

    observation: str | None
    reasoning: str | None
    prediction: str | None
    think: str | None
    answer: str | None
    native_thinking: str | None
    actions: tuple[Action, ...]
    well_formed: bool
    problems: tuple[Problem, ...]

    @property
    def cut(self) -> bool:
        """Whether actions beyond the maximum were dropped."""
        return any(problem.code == "too_many_actions" for problem in self.problems)

    @property
    def format_correct(self) -> bool:
        """What earns the format reward: well formed, at least one action, every action valid."""
        return (
            self.well_formed
            and bool(self.actions)
            and not any(problem.code in ("unknown_action", "bad_argument") for problem in self.problems)
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ParsedTurn:
        """Read back what `dataclasses.asdict` gave."""
        actions = tuple(Action(**{**action, "args": tuple(action["args"])}) for action in data["actions"])
        problems = tuple(Problem(**problem) for problem in data["problems"])
        return cls(**{**data, "actions": actions, "problems": problems})


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    closes: bool
    start: int
    end: int
    text: str


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
    _sequences: tuple[tuple[str, ...], ...] = field(init=False, repr=False)
    _leaves: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy {self.strategy!r}; use one of {', '.join(STRATEGIES)}")
        if not self.separator or "<" in self.separator or self.max_actions < 1:
            raise ValueError(
                f"separator {self.separator!r} must be non-empty without '<', max_actions {self.max_actions} at least 1"
            )
        fields = _FIELDS[self.strategy]
        # In the flat layout the reasoning stands in <think>.
        tag_of = {name: "think" if name == "reasoning" and self.layout == "flat" else name for name in fields}
        object.__setattr__(self, "_leaves", {**{tag: name for name, tag in tag_of.items()}, "answer": "answer"})
        full = self._tags(fields)
        without = self._tags(tuple(name for name in fields if name != "reasoning"))
        sequences = (full, without) if self.reasoning == "optional" and full != without else (full,)
        object.__setattr__(self, "_sequences", sequences)

    def _tags(self, fields: Sequence[str]) -> tuple[str, ...]:
        """The well-formed sequence of tags for these fields, such as `("<think>", "</think>", …)`."""

        def pair(name: str) -> list[str]:
            return [f"<{name}>", f"</{name}>"]

        if self.layout == "flat" and self.strategy != "free_think":
            order = ["think" if name == "reasoning" else name for name in fields if name != "prediction"]
            order += ["answer"] + ["prediction"] * ("prediction" in fields)
            return tuple(tag for name in order for tag in pair(name))
        inner = [tag for name in fields if name != "think" for tag in pair(name)]
        think = ["<think>", *inner, "</think>"] if fields else []
        return (*think, "<answer>", "</answer>")

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
        return self._fill(lambda tag: said[self._leaves[tag]])

    def _fill(self, text_of: Callable[[str], str]) -> str:
        """The full sequence of tags with text in each that closes right after it opens."""
        tags = self._sequences[0]
        return "".join(
            tag + text_of(tag[1:-1]) if following == f"</{tag[1:]}" else tag
            for tag, following in zip(tags, (*tags[1:], ""), strict=True)
        )

    # -- reading ---------------------------------------------------------------------------------

    def parse(self, text: str) -> ParsedTurn:
        """Read a reply. Never raises on a string; takes time linear in its length."""
        pieces = _ANY_TAG.split(text)  # text, tag, text, tag, …, text
        tags = tuple(pieces[1::2])
        if tags in self._sequences:
            parsed = self._read_exact(text, pieces, tags)
            if parsed is not None:
                return parsed
        return self._read_any(text)

    def _read_exact(self, text: str, pieces: list[str], tags: tuple[str, ...]) -> ParsedTurn | None:
        """The quick way for a reply whose tags are exactly those wanted. `None` if its texts are amiss."""
        said: dict[str, str] = {}
        answer = (0, 0)
        position = 0
        for i in range(0, len(pieces), 2):
            piece = pieces[i]
            position += len(piece)
            if (
                0 < i < len(pieces) - 1
                and (leaf := self._leaves.get(pieces[i - 1][1:-1]))
                and (pieces[i + 1][2:-1] == pieces[i - 1][1:-1])
            ):
                said[leaf] = piece = piece.strip()
                if leaf == "answer":
                    answer = (position - len(pieces[i]), position)
                elif not piece:
                    return None
            elif piece and not piece.isspace():
                return None
            position += len(pieces[i + 1]) if i + 1 < len(pieces) else 0
        problems: list[Problem] = []
        actions = self._read_actions(text, *answer, problems)
        get = said.get
        return ParsedTurn(
            get("observation"), get("reasoning"), get("prediction"), get("think"), said["answer"], None,
            actions, True, tuple(problems),
        )  # fmt: skip

    def _read_any(self, text: str) -> ParsedTurn:
        """The careful way, which names every problem."""
        tags = [_Tag(m[2].lower(), m[1] == "/", m.start(), m.end(), m[0]) for m in _TAG.finditer(text)]
        problems: list[Problem] = []
        begin = self._native_thinking_end(text, tags)
        native = None
        if begin:
            native = _TAG.sub("", text[:begin]).strip()
            tags = [tag for tag in tags if tag.start >= begin]
            if self.native_thinking == "reject":
                message = "text of a thinking model stands before the reply"
                problems.append(Problem("native_thinking", message, 0, begin))
        if self.strategy in ("no_think", "free_think"):  # their text is free, other tags in it are just text
            tags = [tag for tag in tags if tag.name in ("think", "answer")]
        problems += self._check_format(text, tags, begin)
        well_formed = not problems
        answer = _answer_span(tags)
        actions: tuple[Action, ...] = ()
        if answer is None:
            problems.append(Problem("no_answer", "there is no <answer>…</answer>", begin, len(text)))
            well_formed = False
        elif not well_formed and (self.parsing == "strict" or self.strategy in ("no_think", "free_think")):
            problems.append(Problem("withheld", "nothing was executed because the format is broken", *answer))
        else:
            actions = self._read_actions(text, *answer, problems)
        said = {name: _leaf(text, tags, tag) for tag, name in self._leaves.items() if tag != "answer"}
        return ParsedTurn(
            said.get("observation"),
            said.get("reasoning"),
            said.get("prediction"),
            said.get("think"),
            None if answer is None else text[answer[0] : answer[1]].strip(),
            native,
            actions,
            well_formed,
            tuple(problems),
        )

    def _native_thinking_end(self, text: str, tags: list[_Tag]) -> int:
        """Where a thinking model's own text ends and its reply begins; 0 if there is no such text.

        Chat templates of thinking models open `<think>` themselves, so replies arrive as
        "thought </think> reply"; others write "<think>thought</think> reply" or never close it.
        """
        thinks = [tag for tag in tags if tag.name == "think"][:3]
        if not thinks:
            return 0
        if thinks[0].closes:
            return thinks[0].end
        if text[: thinks[0].start].strip():
            return 0
        wants_think_first = self._sequences[0][0] == "<think>"
        if wants_think_first:
            if len(thinks) > 1 and not thinks[1].closes:  # opened twice: the first was never closed
                return thinks[1].start
            if len(thinks) > 2 and not thinks[2].closes and not text[thinks[1].end : thinks[2].start].strip():
                return thinks[1].end
            return 0
        return thinks[1].end if len(thinks) > 1 and thinks[1].closes else 0

    def _check_format(self, text: str, tags: list[_Tag], begin: int) -> list[Problem]:
        names = tuple(tag.text for tag in tags)
        if names in self._sequences:
            return [*self._stray_text(text, tags, begin), *self._empty_fields(text, tags)]
        problems = [*self._tag_problems(tags), *self._stray_text(text, tags[:1], begin, only_before=True)]
        if not problems and tags:
            problems.append(
                Problem("tag_order", f"the tags don't stand as in {self.template()}", tags[0].start, tags[-1].end)
            )
        return problems

    def _tag_problems(self, tags: list[_Tag]) -> Iterator[Problem]:
        wanted = [tag[1:-1] for tag in self._sequences[-1] if not tag.startswith("</")]
        known = {tag[1:-1] for tag in self._sequences[0]}
        for name in dict.fromkeys([*wanted, *(tag.name for tag in tags)]):
            opened = [tag for tag in tags if tag.name == name and not tag.closes]
            closed = [tag for tag in tags if tag.name == name and tag.closes]
            span = next(((tag.start, tag.end) for tag in (*opened, *closed)), (0, 0))
            if name not in known:
                yield Problem("unexpected_tag", f"<{name}> doesn't belong to this format", *span)
            elif not opened and not closed:
                if name != "answer":  # its absence has a code of its own
                    yield Problem("missing_tag", f"<{name}> is missing", *span)
            elif len(opened) > len(closed):
                yield Problem("unclosed_tag", f"<{name}> is not closed", opened[-1].start, opened[-1].end)
            elif len(opened) < len(closed):
                yield Problem("missing_tag", f"</{name}> closes what was never opened", closed[0].start, closed[0].end)
            elif len(opened) > 1:
                yield Problem("repeated_tag", f"<{name}> stands {len(opened)} times", opened[1].start, opened[1].end)
            elif any(tag.text != tag.text.lower() for tag in (*opened, *closed)):
                yield Problem("tag_case", f"<{name}> must be written in lower case", *span)

    def _stray_text(self, text: str, tags: list[_Tag], begin: int, *, only_before: bool = False) -> Iterator[Problem]:
        """Text between tags that isn't the text of a field. Only the first such place is named."""
        edges = [begin, *(edge for tag in tags for edge in (tag.start, tag.end)), len(text)]
        gaps = [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2)]
        for i, (start, end) in enumerate(gaps[:1] if only_before else gaps):
            leaf = 0 < i < len(gaps) - 1 and not tags[i - 1].closes and tags[i].closes
            if not leaf and not text[start:end].isspace() and start < end:
                yield Problem("text_outside", "text stands outside the tags", start, end)
                return

    def _empty_fields(self, text: str, tags: list[_Tag]) -> Iterator[Problem]:
        for left, right in itertools.pairwise(tags):
            if not left.closes and right.closes and left.name != "answer" and not text[left.end : right.start].strip():
                yield Problem("empty_field", f"<{left.name}> is empty", left.start, right.end)

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
        if not actions and not (problems and problems[-1].code in _ACTION_CODES):
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


_ACTION_CODES = ("unknown_action", "bad_argument")


def _leaf(text: str, tags: list[_Tag], name: str) -> str | None:
    """The text of the first `<name>` up to the `</name>` that follows it."""
    opened: _Tag | None = None
    for tag in tags:
        if tag.name == name:
            if opened is None and not tag.closes:
                opened = tag
            elif opened is not None and tag.closes:
                return text[opened.end : tag.start].strip()
    return None


def _answer_span(tags: list[_Tag]) -> tuple[int, int] | None:
    """The answer to execute: the first complete one outside a closed `<think>`, else the first complete one.

    A thought may mention an answer, and text after the answer may be a hallucinated next turn.
    """
    first: tuple[int, int] | None = None
    inside: list[tuple[int, int]] = []
    opened: _Tag | None = None
    depth_start: int | None = None
    for tag in tags:
        if tag.name == "think":
            if not tag.closes:
                depth_start = tag.start if depth_start is None else depth_start
            elif depth_start is not None:
                inside, depth_start = [], None  # all answers since the opening were part of the thought
        elif tag.name == "answer":
            if not tag.closes:
                opened = tag
            elif opened is not None:
                span = (opened.end, tag.start)
                opened = None
                if depth_start is None:
                    return span
                inside.append(span)
                first = first or span
    return inside[0] if inside else first
