"""Episodes of the oracle, and the pictures that chat messages carry."""

from __future__ import annotations

import base64

from vagen_envs import Picture


def reply_of(env, *actions, text="I act."):
    """A reply in full, which any way of reading executes."""
    words = dict.fromkeys(("observation", "reasoning", "prediction", "think"), text)
    return env.unwrapped.grammar.render(actions, **words)


def finish(env, say=None):
    """The turns from here to the episode's end; the oracle replies, or `say(env)`."""
    turns = []
    while not turns or not (turns[-1].terminated or turns[-1].truncated):
        turns.append(env.step(env.unwrapped.oracle_reply() if say is None else say(env))[4]["turn"])
    return turns


def oracle_episode(env, seed, split):
    """Replies and turns of the oracle's episode."""
    env.reset(seed=seed, options={"split": split})
    turns = finish(env)
    return [turn.reply for turn in turns], turns


def picture_of(message):
    """The picture of a message in OpenAI's form."""
    (url,) = [
        part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"
    ]
    return Picture.from_png(base64.b64decode(url.removeprefix("data:image/png;base64,")))
