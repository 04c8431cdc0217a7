"""The grammar, its words and the page about them say the same; statements of others are neither refused nor accepted wrongly."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from lark.exceptions import LarkError

from vagen_envs.core import State
from vagen_rewards import RuleJudge
from vagen_rewards.reader import clauses, read, sentences
from vagen_rewards.scores import Statement

PAGE = Path(__file__).parents[2] / "docs" / "judges.md"
OTHERS = Path(__file__).with_name("statements.json")
GRAMMAR = files("vagen_rewards.reader").joinpath("grammar.lark").read_text(encoding="utf-8")
KINDS = {"Nav": "navigation", "Pri": "primitive_skill", "SVG": "svg"}


def examples() -> list[tuple[str, str]]:
    """Kind of state and text of each example of the page."""
    table = PAGE.read_text(encoding="utf-8").split("| form | examples |")[1].split("\n\n")[0]
    found = []
    for row in table.strip().splitlines()[1:]:
        _, form, texts, _ = row.split("|")
        for text in re.findall(r"`([^`]+)`(?!…)", texts):
            board = "sokoban" if "box" in text.lower() else "frozen_lake"
            found.append((KINDS.get(form.strip()[:3], board), text))
    return found


def forget() -> None:
    """Empty what the reader keeps between texts."""
    for kept in (read, sentences._told, clauses.forms, clauses.parser):
        kept.cache_clear()


def is_read(kind: str, text: str) -> bool:
    reading = read(kind, text, "grounding")
    return bool(reading.claims) and not reading.unread


@pytest.mark.parametrize(("kind", "text"), examples())
def test_each_example_of_the_page_is_read_whole(kind, text):
    assert is_read(kind, text)


def more_sentences() -> list[tuple[str, str]]:
    """Kind and text of the sentences beside those of the page."""
    table = tomllib.loads(Path(__file__).with_name("forms.toml").read_text(encoding="utf-8"))
    return [(kind, text) for kind, texts in table.items() for text in texts]


def forms() -> list[int]:
    """Numbers of the grammar's lines that are forms."""
    return [i for i, line in enumerate(GRAMMAR.splitlines()) if "->" in line and "//" in line]


@pytest.mark.parametrize("number", forms())
def test_each_form_of_the_grammar_has_an_example(number, monkeypatch):
    """Without the line some example isn't read any more."""
    lines = GRAMMAR.splitlines()
    start, form = re.match(r"(\s*\??\w*:|\s*\|)(.*)", lines[number]).groups()
    alias = re.search(r"->.*", form)[0]
    lines[number] = f"{start} _NEVER {alias}"
    lines.append("%declare _NEVER")
    monkeypatch.setattr(clauses, "grammar", lambda: "\n".join(lines))
    forget()
    try:
        assert not all(is_read(kind, text) for kind, text in [*examples(), *more_sentences()])
    except LarkError as error:
        pytest.fail(f"the grammar without this line is none: {error}")
    finally:
        forget()


@pytest.mark.parametrize(("kind", "text"), more_sentences())
def test_each_form_is_read_whole(kind, text):
    assert is_read(kind, text)


def test_each_alternative_of_the_grammar_is_used():
    """A sentence above goes through each of the rules that the parser makes of the grammar."""
    forget()
    used: set[str] = set()
    rules: dict[str, None] = {}
    for start in ("clause", "elements"):
        parser = clauses.parser(start)
        rules |= dict.fromkeys(map(str, parser.rules))
        callbacks = parser.parser.parser.parser.callbacks  # called when a rule has been matched
        for rule, build in callbacks.items():
            callbacks[rule] = functools.partial(_used, used, str(rule), build)
    for kind, text in [*examples(), *more_sentences()]:
        read(kind, text, "grounding")
    forget()
    unused = [rule for rule in rules if rule not in used]
    assert not unused, "\n".join(unused)


def _used(used, rule, build, children):
    used.add(rule)
    return build(children)


def statements() -> tuple[dict[str, State], list[dict[str, str]]]:
    data = json.loads(OTHERS.read_text(encoding="utf-8"))
    states = {name: State.from_json(state) for name, state in data["states"].items()}
    return states, data["statements"]


def test_statements_of_others():
    """Written and labelled about real states by two authors who hadn't seen the judge."""
    states, rows = statements()
    found: dict[tuple[str, float | None], list[str]] = {}
    for row in rows:
        score = RuleJudge("direct").score(Statement(row["part"], row["text"], states[row["state"]]))
        found.setdefault((row["label"], score.value), []).append(row["text"])
    true = sum(len(texts) for (label, _), texts in found.items() if label == "true")
    accepted = found.get(("true", 1.0), [])
    wrongly = [*found.get(("false", 1.0), []), *found.get(("partly", 1.0), [])]
    assert len(found.get(("true", 0.0), [])) <= 0.01 * true, found[("true", 0.0)]
    assert len(wrongly) <= 0.01 * (len(wrongly) + len(accepted)), wrongly
    assert len(accepted) >= 0.35 * true
