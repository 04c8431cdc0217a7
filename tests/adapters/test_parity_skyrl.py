"""The parity kit on SkyRL's generator for pictures: as it is, and with its rendering fixed."""

from __future__ import annotations

import pytest

pytest.importorskip("skyrl", reason="needs SkyRL, in an environment of its own")

from parity_reports import failed, said
from parity_skyrl import Client, OfSkyRL

from vagen_adapters.parity import run


def test_skyrl_2075_an_observation_is_sliced_from_a_new_rendering_at_a_stale_offset(model):
    """SkyRL 0.4.0 renders the conversation's words anew for each turn, and takes what lies behind the sampled tokens
    for the observation; a reply that isn't spelled as its tokenizer would spell it swallows the observation's head."""
    report = run(OfSkyRL(), model, ["truncated", "broken"])
    assert failed(report) == {"context", "pictures", "log-probs"}
    assert "turn 1: the sampler read" in said(report, "context")
    assert said(report, "pictures") == "tokens 16, features 48: 1 runs of image tokens, 3 pictures"
    assert "do not match" in said(report, "log-probs")


class Keeps(Client):
    """A rendering in which replies stay the tokens that were sampled."""

    async def render_chat_completion(self, payload):
        messages = payload["json"]["messages"]
        rendered = await super().render_chat_completion(payload)
        replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        if not replies:
            return rendered
        tokens = (
            await super().render_chat_completion({"json": {"messages": messages[: replies[0]]}})
        )["token_ids"]
        for at, call in zip(replies, self.sampler.calls, strict=True):
            alone = await super().render_chat_completion({"json": {"messages": messages[: at + 2]}})
            behind = _behind_the_last_reply(alone["token_ids"], self.model.end_token)
            ended = [] if call.reply[-1] == self.model.end_token else [self.model.end_token]
            tokens = [*tokens, *call.reply, *ended, *behind]
        return {**rendered, "token_ids": tokens}


def _behind_the_last_reply(ids, end):
    """`\\n`, the user's message with its end, and what begins a reply, behind the end of the reply before."""
    places = [at for at, token in enumerate(ids) if token == end]
    return ids[places[-2] + 1 :]


def test_it_is_quiet_where_replies_stay_what_was_sampled(model):
    """But for an image token that the model samples: SkyRL has no guard against it."""
    trainer = OfSkyRL()
    trainer.client = Keeps
    report = run(trainer, model)
    assert {each.recording for each in report.failed} <= {"image token", "video token"}
    assert {"pictures", "log-probs"} <= failed(report)
    assert {each.check for each in report.findings if each.verdict == "skip"} == {"ends"}
