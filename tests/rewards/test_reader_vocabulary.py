"""Each word of the vocabulary is needed, and means what the table `synonyms.toml` says."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path

import pytest

from vagen_envs.navigation.state import NavigationState
from vagen_rewards.reader import navigation, read, sentences, words

FOLDER = Path(__file__).parent
TABLE = tomllib.loads((FOLDER / "synonyms.toml").read_text(encoding="utf-8"))
ROWS = TABLE["row"]


def forget():
    """Empty what the reader keeps between texts."""
    kept = (words.phrases, words._by_first_word, words._passed_over, sentences._told, read)
    for each in (*kept, navigation._is_called):
        each.cache_clear()


def meaning(kind, text, part="grounding"):
    """The facts of a text, and how much wasn't read and may matter."""
    reading = read(kind, text, part)
    return [claim.key for claim in reading.claims], len(reading.unread), len(reading.matters)


def means(row, word):
    """Whether the row's sentence says with this word what the row says."""
    part = row.get("part", "grounding")
    found = meaning(row["kind"], row["sentence"].replace("{}", word), part)
    if row["like"] == "nothing":
        return found == ([], 1, 1)
    if row["like"] == "a plan":
        return found == ([], 1, 0)
    wanted = meaning(row["kind"], row["like"], part)
    return found == wanted and bool(found[0]) and not found[1]


def names(kind, name):
    """Whether a name is read as that of an object of this type."""
    state = NavigationState(kind, 2.0, "left", ())
    reading = read("navigation", f"The {name} is to my left.", "grounding")
    return [claim.holds(state) for claim in reading.claims] == [True] and not reading.unread


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sentence"])
def test_synonyms_mean_the_same(row):
    assert [word for word in row["words"] if not means(row, word)] == []


@pytest.mark.parametrize("kind", TABLE["called"])
def test_types_of_objects_go_by_their_names(kind):
    assert [name for name in TABLE["called"][kind] if not names(kind, name)] == []


def all_words(table, path=()):
    """Each word of the vocabulary with the keys that lead to its list."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from all_words(value, (*path, key))
        else:
            yield from (((*path, key), word) for word in value)


def without(path, word):
    """The vocabulary without one word of one list."""
    changed = copy.deepcopy(words.vocabulary())
    table = changed
    for key in path[:-1]:
        table = table[key]
    table[path[-1]].remove(word)
    return changed


def is_needed(path, word):
    """Whether a test above fails, now that the word is gone."""
    if path[:2] == ("navigation", "called"):
        return not names(path[2], word)
    return not all(means(row, word) for row in ROWS if word in row["words"])


def test_no_word_can_be_deleted(monkeypatch):
    left = []
    for path, word in list(all_words(words.vocabulary())):
        changed = without(path, word)
        with monkeypatch.context() as patch:
            for module in (words, navigation):
                patch.setattr(module, "vocabulary", lambda changed=changed: changed)
            forget()
            if not is_needed(path, word):
                left.append((*path, word))
    forget()
    assert not left, "\n".join(map(str, left))
