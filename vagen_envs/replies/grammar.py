"""The grammar of a configuration: from a model's text to a `ParsedTurn`, and back. Pure, total,
linear in the text.

One `Grammar` per configuration writes the format for the prompt, renders replies, parses them and
checks the format, so that these cannot disagree. Formats: VAGEN (paper), section 2.2 and table 5.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from vagen_envs.replies.actions import Action, ActionGrammar, Calls, Names
from vagen_envs.replies.answers import Reply, find_answer
from vagen_envs.replies.execution import AnswerReader, Parsing
from vagen_envs.replies.layouts import (
    FIELDS,
    STRATEGIES,
    Format,
    Layout,
    Strategy,
)
from vagen_envs.replies.parsed import FORMAT_CODES, ParsedTurn, Problem
from vagen_envs.replies.reference import ReferenceParser, released_rule
from vagen_envs.replies.tags import (
    TAGS,
    Tag,
    TagNames,
    check_tags,
    field_text,
    find_tags,
    in_ascii,
    tag_pattern,
    within,
    without_tokens,
)

Reasoning = Literal["optional", "required"]
NativeThinking = Literal["reject", "allow"]


@dataclass(frozen=True)
class Grammar:
    """The format of a reply and of its actions.

    Attributes:
        actions: what an answer may hold.
        strategy: which reasoning fields a reply has (VAGEN, section 2.2).
        separator: stands between actions.
        max_actions: actions beyond this many are dropped and marked.
        layout: `"nested"` is the paper's (table 5): the fields inside `<think>`, then the answer.
            `"flat"` is the order of VAGEN's 2026 code: `<observation>`, `<think>` for the
            reasoning, `<answer>`, `<prediction>`. `"untagged"` has no `<think>`: whatever stands
            before the first field is the thought, tagged or not, and may be missing; then the
            fields, then the answer. A template's tokens (`vagen_envs.replies.tags`) don't break
            this format.
        tags: what the tags are called, in the order of `TAGS`.
        reasoning: whether the reasoning field may be left out. Table 5 has it, the templates of
            section 2.2 don't; so it is in every prompt and optional when reading, by default.
        parsing: `"strict"` executes nothing unless the reply is well formed. `"lenient"` executes
            what a malformed reply means: its last answer after its thoughts, actions in markdown,
            JSON or a tool call (see `vagen_envs.replies.answers` and `table`); the format reward is
            strict in both.
            `"released"` executes and pays what VAGEN's released parsers do, see
            `vagen_envs.replies.reference`.
        native_thinking: whether the text a thinking model writes before its reply (up to a closing
            `</think>` of its own) breaks the format. It is set aside either way.
    """

    actions: ActionGrammar
    strategy: Strategy = "grounding_world_modeling"
    separator: str = ","
    max_actions: int = 1
    layout: Layout = "nested"
    tags: TagNames = TAGS
    reasoning: Reasoning = "optional"
    parsing: Parsing = "lenient"
    native_thinking: NativeThinking = "reject"
    _format: Format = field(init=False, repr=False, compare=False)
    _reference: ReferenceParser | None = field(init=False, repr=False, compare=False)
    _reader: AnswerReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"unknown strategy {self.strategy!r}; use one of {', '.join(STRATEGIES)}"
            )
        if not self.separator or "<" in self.separator or self.max_actions < 1:
            raise ValueError(
                f"separator {self.separator!r} must be non-empty without '<', max_actions "
                f"{self.max_actions} at least 1"
            )
        check_tags(self.tags)
        optional = self.reasoning == "optional" and self.parsing != "released"
        form = Format(self.strategy, self.layout, self.tags, reasoning_is_optional=optional)
        set_field = object.__setattr__
        set_field(self, "_format", form)
        reader = AnswerReader(
            self.actions, self.separator, self.max_actions, self.parsing, self.tags[-1]
        )
        set_field(self, "_reader", reader)
        set_field(self, "_reference", None)
        if self.parsing == "released":
            if self.layout == "untagged":
                raise ValueError(
                    "parsing='released' knows no layout 'untagged', which isn't VAGEN's; use "
                    "nested or flat, or another parsing"
                )
            rule = released_rule(self.layout, self.strategy)
            reference = ReferenceParser(*next(iter(form.places.items())), rule)
            set_field(self, "_reference", reference)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a reply beside its answer, in order."""
        return FIELDS[self.strategy]

    # -- writing ---------------------------------------------------------------------------------

    def template(self) -> str:
        """The format as a prompt shows it, with `...` for every field."""
        return self._format.template()

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
        texts = {
            "observation": observation,
            "reasoning": reasoning,
            "prediction": prediction,
            "think": think,
        }
        if isinstance(self.actions, Names):
            actions = [self.actions.written(action) for action in actions]
        texts["answer"] = self.separator.join(actions)
        return self._format.fill(texts.__getitem__)

    # -- reading ---------------------------------------------------------------------------------

    def parse(self, text: str) -> ParsedTurn:
        """Read a reply. Never raises on a string; takes time linear in its length."""
        if self._reference is not None:
            return self._read_as_released(text, self._reference)
        if not self._format.free_thought:  # else what stands before an answer may reject it
            pieces = tag_pattern(self.tags).split(text)
            places = self._format.places.get(tuple(pieces[1::2]))
            parsed = self._read_exact(pieces, places) if places is not None else None
            if parsed is not None:
                return parsed
        return self._read_any(text)

    def _read_exact(self, pieces: list[str], places: dict[int, str]) -> ParsedTurn | None:
        """The quick way for a reply whose tags are exactly those wanted. `None` if its texts are
        amiss.

        Args:
            pieces: of the reply: text, tag, text, tag, …, text.
            places: the field of each piece.
        """
        texts: dict[str, str] = {}
        span = (0, 0)
        for i in range(0, len(pieces), 2):
            name = places.get(i)
            texts[name or ""] = piece = pieces[i].strip()
            is_field = name is not None
            if name != "answer" and bool(piece) != is_field:  # text outside, or an empty field
                return None
            if name == "answer":
                start = sum(map(len, pieces[:i]))
                span = (start, start + len(pieces[i]))
        problems: list[Problem] = []
        actions = self._reader.read("".join(pieces), span, problems)
        return _turn(texts, None, actions, problems)

    def _read_any(self, text: str) -> ParsedTurn:
        """The careful way, which names every problem."""
        reply = find_answer(text, self.tags, self._format.sequences[0][0])
        plain = without_tokens(text, self.tags)
        problems: list[Problem] = []
        texts: dict[str, str | None] = {}
        native: str | None = None
        if self._format.free_thought:
            tags, begin = self._after_free_thought(reply)
            texts["think"] = self._without_tags(text[:begin])
        else:
            begin = self._format.own_begin(text, reply.tags, reply.thinking)
            tags = [tag for tag in reply.tags if tag.start >= begin]
            native = self._without_tags(text[:begin]) or "" if begin else None
            if begin and self.native_thinking == "reject":
                message = "text of a thinking model stands before the reply"
                problems.append(Problem("native_thinking", message, 0, begin))
        if self.strategy in ("no_think", "free_think"):  # other tags in their text are just text
            tags = [tag for tag in tags if tag.name in ("think", "answer")]
        shown = plain if self.layout == "untagged" else text
        problems += self._format.problems(shown, tags, begin)
        if isinstance(self.actions, Names | Calls):  # other actions are texts, left as they are
            plain = in_ascii(plain)
        read = plain if self.parsing == "lenient" else text
        actions, answer = self._reader.execute(read, reply, problems, begin)
        texts.update(
            (name, self._field(text, tag, reply, begin))
            for tag, name in self._format.leaves.items()
        )
        said = [text[start:end].strip() for start, end in answer]
        texts["answer"] = self.separator.join(said) if answer else None
        return _turn(texts, native, actions, problems)

    def _after_free_thought(self, reply: Reply) -> tuple[list[Tag], int]:
        """The tags of the fields after a thought without tags, and where it ends."""
        fields = ("answer",) if self.strategy == "free_think" else TAGS[1:]
        tags = [
            tag
            for tag in reply.tags
            if tag.name in fields and not within(tag.start, reply.thinking.spans)
        ]
        return tags, tags[0].start if tags else len(reply.plain)

    def _without_tags(self, text: str) -> str | None:
        return tag_pattern(self.tags).sub("", text).strip() or None

    def _field(self, text: str, name: str, reply: Reply, begin: int) -> str | None:
        """The text of a field that belongs to the answer, not to a draft or a quoted example before
        it.
        """
        begin = max(begin, reply.fields_from)
        if self.layout == "flat" and name == "prediction":  # it follows its answer
            begin = max(begin, reply.answer[0][0] if reply.answer else 0)
        return field_text(text, [tag for tag in reply.shown if tag.start >= begin], name)

    def _read_as_released(self, text: str, reference: ReferenceParser) -> ParsedTurn:
        """As VAGEN's released parsers read it."""
        spans, well_formed = reference.read(text)
        problems: list[Problem] = []
        if not well_formed:
            tags = find_tags(text, self.tags)
            problems += self._format.problems(text, tags, 0)
            if all(problem.code == "empty_field" for problem in problems):
                message = f"the tags don't stand as in {self.template()}"
                problems = [Problem("tag_order", message, 0, len(text))]
        actions: tuple[Action, ...] = ()
        if "answer" in spans:
            actions = self._reader.read(text, spans["answer"], problems)
        else:
            message = f"there is no <{self.tags[-1]}>…</{self.tags[-1]}> in its place"
            problems.append(Problem("no_answer", message, 0, len(text)))
        return _turn(
            {name: text[slice(*span)].strip() for name, span in spans.items()},
            None,
            actions,
            problems,
        )


_same = functools.lru_cache(64)(Grammar)


def grammar_of(actions: ActionGrammar, **how: Any) -> Grammar:
    """The `Grammar` of these arguments: one for the hundreds of environments of a run that are
    configured alike.
    """
    return _same(actions, **how) if isinstance(actions, Hashable) else Grammar(actions, **how)


def _turn(
    texts: Mapping[str, str | None],
    native_thinking: str | None,
    actions: tuple[Action, ...],
    problems: list[Problem],
) -> ParsedTurn:
    fields = {
        name: texts.get(name)
        for name in ("observation", "reasoning", "prediction", "think", "answer")
    }
    well_formed = FORMAT_CODES.isdisjoint(problem.code for problem in problems)
    return ParsedTurn(
        **fields,
        native_thinking=native_thinking,
        actions=actions,
        well_formed=well_formed,
        problems=tuple(problems),
    )
