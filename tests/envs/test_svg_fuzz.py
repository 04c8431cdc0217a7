"""Any text at all is drawn, or it is said why not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("resvg")

from vagen_envs.svg.renderer import Renderer

sys.path.insert(0, str(Path(__file__).parent))
from hostile_svgs import svg

WORDS = json.loads(
    Path(__file__).with_name("data").joinpath("words.json").read_text(encoding="utf-8")
)
TAGS, NAMES = st.sampled_from(WORDS["svg_tags"]), st.sampled_from(WORDS["svg_attributes"])
VALUES = st.one_of(
    st.sampled_from(
        [
            "url(#a)",
            "#a",
            "#b",
            "url(#b)",
            "0",
            "-1",
            "1e5",
            "50%",
            "none",
            "red",
            "M0 0L9 9Z",
            "1 2 3 4",
        ]
    ),
    st.from_regex(r"\A[MLCAQZHVSTmlcaz0-9 .,eE+-]{0,40}\Z"),
    st.text(max_size=20),
)


@st.composite
def documents(draw, depth=0):
    attributes = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    children = draw(st.lists(documents(depth=depth + 1), max_size=3)) if depth < 3 else []
    tag = draw(TAGS)
    words = "".join(
        " " + name + '="' + "".join(f"&#{ord(c)};" if c in '<>&"\n\t' else c for c in value) + '"'
        for name, value in attributes.items()
    )
    return f"<{tag}{words}>{''.join(children)}</{tag}>"


@pytest.fixture(scope="module")
def fuzzed():
    made = Renderer(workers=1)
    yield made
    made.close()


@settings(max_examples=60)
@given(body=documents())
def test_any_document_is_drawn_or_explained(fuzzed, body):
    drawing = fuzzed.draw(svg(body), 32)
    assert (drawing.pixels is None) == bool(drawing.problem)
    assert drawing.pixels is None or drawing.pixels.shape == (32, 32, 3)


@settings(max_examples=60)
@given(
    text=st.one_of(
        st.text(),
        st.text(alphabet="<>/svg &;#\"'=[]!-()x"),
        st.binary().map(lambda b: b.decode("latin")),
    )
)
def test_any_text_is_drawn_or_explained(fuzzed, text):
    for each in (text, f"<svg {text}", svg(text)):
        drawing = fuzzed.draw(each, 32)
        assert (drawing.pixels is None) == bool(drawing.problem)
