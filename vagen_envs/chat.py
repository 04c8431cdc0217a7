"""From turns to chat messages: OpenAI-style parts with text and pictures, and how much of the past they show.

The history window is Verlog's (its section on memory): a prompt holds the latest `n` + 1 turns, each a
state, a reply and so on, with the reasoning of the earlier replies or with their answers only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import gymnasium as gym

from vagen_envs.core import IMAGE_PLACEHOLDER, Observation, Turn, VagenEnv
from vagen_envs.errors import ConfigError, did_you_mean
from vagen_envs.pictures import Picture

PictureForm = Literal["data_url", "pil"]
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """How much of an episode's past a prompt shows.

    Attributes:
        turns: how many of the latest earlier turns; `None` for all of them, 0 for none.
        reasoning: whether earlier replies keep their reasoning or only `<answer>…</answer>`.
    """

    turns: int | None = None
    reasoning: bool = True

    def __post_init__(self) -> None:
        count = self.turns
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
            raise ConfigError(f"turns={count!r} is not valid: it must be None (all) or an integer of at least 0")


def system_prompt_of(env_id: str, **options: Any) -> str:
    """The system prompt of the environment that `gym.make` gives for this id and these options."""
    with contextlib.closing(gym.make(env_id, **options)) as env:
        return cast(VagenEnv, env.unwrapped).system_prompt


def chat_messages(
    system_prompt: str,
    turns: Sequence[Turn],
    now: Observation | None = None,
    *,
    history: History | None = None,
    pictures: PictureForm = "data_url",
    answer_tag: str = "answer",
) -> list[Message]:
    """An episode, or its latest part, as chat messages.

    Args:
        system_prompt: the environment's.
        turns: the turns played so far, in order.
        now: the observation that the model is to answer. Without it the messages end with the last
            turn's reply, which is never shortened, as a training sample needs it.
        history: how much of the past is shown; all of it by default.
        pictures: `"data_url"` writes pictures as OpenAI's `image_url` parts (PNG), `"pil"` as
            `{"type": "image", "image": PIL.Image}` parts, as transformers' chat templates take them.
        answer_tag: what the environment's `tags` call the answer, for a history without reasoning.

    Returns:
        `{"role": …, "content": …}` messages: one `system`, then `user` (a list of parts) and
        `assistant` (a string) in turn. Each picture stands where its `<image>` stood.
    """
    history = history or History()
    earlier = turns if now is not None else turns[:-1]
    if history.turns is not None:
        earlier = earlier[max(0, len(earlier) - history.turns) :]
    messages: list[Message] = [{"role": "system", "content": system_prompt}]
    for turn in earlier:
        messages.append({"role": "user", "content": observation_parts(turn.observed, pictures)})
        messages.append(
            {"role": "assistant", "content": turn.reply if history.reasoning else answer_only(turn, answer_tag)}
        )
    if now is not None:
        messages.append({"role": "user", "content": observation_parts(now, pictures)})
    elif turns:
        messages.append({"role": "user", "content": observation_parts(turns[-1].observed, pictures)})
        messages.append({"role": "assistant", "content": turns[-1].reply})
    return messages


def observation_parts(observation: Observation, pictures: PictureForm = "data_url") -> list[dict[str, Any]]:
    """An observation as parts of a message, its picture where `<image>` stands.

    A placeholder that got into the text otherwise (a reply quoted in the feedback) is taken out, so
    that there are always as many pictures as placeholders. The picture takes the last one's place.
    """
    text, picture = observation.text, observation.picture
    if picture is None:
        return [{"type": "text", "text": _without_placeholder(text)}]
    before, found, after = text.rpartition(IMAGE_PLACEHOLDER)
    if not found:
        before, after = text, ""
    parts = [_text(before), _picture(picture, pictures), _text(after)]
    return [part for part in parts if part is not None]


def answer_only(turn: Turn, tag: str = "answer") -> str:
    """The turn's reply without its reasoning."""
    return f"<{tag}>{turn.parsed.answer or ''}</{tag}>"


def _text(text: str) -> dict[str, Any] | None:
    text = _without_placeholder(text).strip("\n")
    return {"type": "text", "text": text} if text else None


def _without_placeholder(text: str) -> str:
    while IMAGE_PLACEHOLDER in text:  # taking one out may put another together: "<ima<image>ge>"
        text = text.replace(IMAGE_PLACEHOLDER, "")
    return text


def _picture(picture: Picture, form: PictureForm) -> dict[str, Any]:
    if form == "pil":
        return {"type": "image", "image": picture.pil}
    if form == "data_url":
        return {"type": "image_url", "image_url": {"url": picture.data_url}}
    raise ConfigError(f"pictures={form!r} is not valid.{did_you_mean(str(form), get_args(PictureForm))}")
