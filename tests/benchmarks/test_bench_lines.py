"""An episode's line says what the standard library's JSON says, whatever is in it."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st

from vagen_benchmarks.agents.scripted import Random
from vagen_benchmarks.runs.encoding import in_a_line
from vagen_benchmarks.runs.run_folder import RunFolder, read_episode


def by_the_library(data):
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"))


@pytest.fixture(scope="module")
def episode(tmp_path_factory):
    """One as it is stored, with a call."""
    path = tmp_path_factory.mktemp("lines") / "run"
    runs.play(path, [Random()], episodes=1)
    data = next(RunFolder(path).episodes()).to_json()
    data["calls"] = [{"ending": "stop", "seconds": 0.2, "dollars": None, "reasoning": None}, None]
    return data


def test_a_line_is_as_it_was(episode):
    assert in_a_line(episode) == by_the_library(episode)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, -0.0, 1e22, 2**64, -(2**63) - 1, 2**100, np.float64(0.25), (1, (2, 3)), {"7": [None]},
     "null", "\ud800", "\u2028é\U0001f600", "\x7f", "\x00\x1f\b\f\\\"/", True, [], {}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("where", ["metrics", "before", "parsed", "reply", "calls"])
def test_what_is_no_plain_value_is_written_as_by_the_library(episode, where, value):
    data = copy.deepcopy(episode)
    if where == "calls":
        data["calls"][0]["reasoning"] = value
    elif where == "reply":
        data["turns"][0]["reply"] = value
    else:
        data["turns"][0][where]["x"] = value
    line = in_a_line(data)
    assert line == by_the_library(data)
    assert "\n" not in line


def test_an_object_that_is_no_json_is_refused(episode):
    with pytest.raises(TypeError):
        in_a_line({**episode, "content": object()})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=JSON)
def test_whatever_a_state_holds_is_read_back(episode, value):
    """Numbers below 0.0001 are written otherwise than by the library, and mean the same."""
    data = {**episode, "turns": [{**episode["turns"][0], "before": {"kind": "sokoban", "x": value}}]}
    line = in_a_line(data)
    assert line.isascii()
    assert by_the_library(json.loads(line)) == by_the_library(data)
    assert by_the_library(read_episode(line).turns[0]) == by_the_library(data["turns"][0])
