"""An observation as parts of a chat message: text, and its picture where `<image>` stands."""

from __future__ import annotations

from typing import Any, Literal, get_args

from vagen_envs.errors import ConfigError, did_you_mean
from vagen_envs.pictures import Picture
from vagen_envs.turn import IMAGE_PLACEHOLDER, Observation

PictureForm = Literal["data_url", "pil"]


def observation_parts(
    observation: Observation, pictures: PictureForm = "data_url"
) -> list[dict[str, Any]]:
    """An observation as parts of a message, its picture where `<image>` stands.

    A placeholder that got into the text otherwise (a reply quoted in the feedback) is taken out, so
    that there are always as many pictures as placeholders. The picture takes the last one's place.
    """
    text = observation.text
    picture = observation.picture
    if picture is None:
        return [{"type": "text", "text": without_placeholder(text)}]
    before, found, after = text.rpartition(IMAGE_PLACEHOLDER)
    if not found:
        before = text
        after = ""
    return [*_text(before), _picture(picture, pictures), *_text(after)]


def _text(text: str) -> list[dict[str, Any]]:
    text = without_placeholder(text).strip("\n")
    return [{"type": "text", "text": text}] if text else []


def _picture(picture: Picture, form: PictureForm) -> dict[str, Any]:
    if form == "pil":
        return {"type": "image", "image": picture.pil}
    if form == "data_url":
        return {"type": "image_url", "image_url": {"url": picture.data_url}}
    raise ConfigError(
        f"pictures={form!r} is not valid.{did_you_mean(str(form), get_args(PictureForm))}"
    )


def without_placeholder(text: str) -> str:
    """A text that shows no picture, whatever it quotes."""
    while IMAGE_PLACEHOLDER in text:  # taking one out may put another together: "<ima<image>ge>"
        text = text.replace(IMAGE_PLACEHOLDER, "")
    return text
