"""What the oracle plays here, to hold against what other libraries play, and the pictures that those are sent."""

from __future__ import annotations

import base64

from vagen_envs import Picture


def oracle_episode(env, seed, split):
    """Replies and turns of the oracle's episode."""
    env.reset(seed=seed, options={"split": split})
    replies, turns, over = [], [], False
    while not over:
        replies.append(env.unwrapped.oracle_reply())
        *_, terminated, truncated, info = env.step(replies[-1])
        turns.append(info["turn"])
        over = terminated or truncated
    return replies, turns


def picture_of(message):
    """The picture of a message in OpenAI's form."""
    (url,) = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return Picture.from_png(base64.b64decode(url.removeprefix("data:image/png;base64,")))
