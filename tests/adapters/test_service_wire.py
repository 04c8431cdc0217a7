"""What goes over the wire comes back as it was, and anything else is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json

import pytest

pytest.importorskip("orjson", reason="needs the extra serve")

from hypothesis import given
from hypothesis import strategies as st

from vagen_adapters.service.wire import joined, parted, read, written

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@given(ANYTHING)
def test_json_comes_back(data):
    again = read(written(data))
    assert again == json.loads(json.dumps(data))


@given(st.binary(min_size=1), st.lists(st.binary()))
def test_frames_come_back(body, pngs):
    pictures = [(hashlib.sha256(png).hexdigest(), png) for png in pngs]
    assert parted(joined(body, pictures)) == (body, pictures)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frame_are_refused(frame):
    with contextlib.suppress(ValueError):
        body, pictures = parted(frame)
        assert joined(body, pictures) == frame
