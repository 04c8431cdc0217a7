"""Pictures keep their content through PNG, JSON and pickle."""

from __future__ import annotations

import base64
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

import vagen_envs  # noqa: F401
from vagen_envs.errors import RecordError
from vagen_envs.pictures import Picture


@given(arrays(np.uint8, (5, 7, 3)))
def test_png_gives_the_pixels_back(pixels):
    picture = Picture(pixels.copy())
    assert np.array_equal(Picture.from_png(picture.png).pixels, pixels)
    assert Picture.from_png(picture.png) == picture
    assert pickle.loads(pickle.dumps(picture)) == picture
    assert base64.b64decode(picture.data_url.partition(",")[2]) == picture.png


def test_pixels_are_read_only_and_names_go_by_content():
    picture = Picture(np.zeros((2, 3, 3), np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        picture.pixels[0, 0, 0] = 1
    assert picture.sha256 == Picture(np.zeros((2, 3, 3), np.uint8)).sha256
    assert picture.sha256 != Picture(np.zeros((3, 2, 3), np.uint8)).sha256


@pytest.mark.parametrize(
    "wrong", [np.zeros((2, 2, 3)), np.zeros((2, 2), np.uint8), np.zeros((2, 2, 4), np.uint8)]
)
def test_what_is_not_a_picture_is_refused(wrong):
    with pytest.raises(ValueError, match="uint8 array of shape"):
        Picture(wrong)


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"x" * 50])
def test_what_is_not_a_png_is_refused(data):
    with pytest.raises(RecordError, match="not a PNG"):
        Picture.from_png(data)
