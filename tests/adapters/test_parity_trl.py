"""The parity kit on TRL's own GRPO with an environment, and on what TRL has fixed, put back."""

from __future__ import annotations

import pytest

pytest.importorskip("trl", reason="needs the extra ppo")

from parity_trl import OfTRL, Recorded

from vagen_adapters.parity import run


def test_trl_trains_what_was_sampled_but_where_the_model_samples_tokens_of_vision(model):
    """TRL 1.16.0 drops the pictures of the whole batch where tokens and features don't match, and
    trains it blind; its forward pass fails at a video's token; and it writes no end after a reply
    that was cut."""
    report = run(OfTRL(), model)
    assert {(each.recording, each.check) for each in report.failed} == {
        ("cut reply", "read"),
        *(("image token", check) for check in ("pictures", "positions", "log-probs")),
        *(("video token", check) for check in ("positions", "log-probs")),
    }
    (said,) = [each.message for each in report.failed if each.check == "pictures"]
    assert "no pixels reach the forward pass" in said
    assert {each.check for each in report.findings if each.verdict == "skip"} == {"ends"}


class WithoutToolPictures(Recorded):
    """TRL #5663: the chat template writes no picture in a tool's message."""

    def _get_tool_suffix_ids(self, tool_messages):
        image = self._tokenizer.convert_tokens_to_ids("<|image_pad|>")
        return [token for token in super()._get_tool_suffix_ids(tool_messages) if token != image]


def test_trl_5663_put_back_into_trl(model):
    trainer = OfTRL()
    trainer.trainer_class = WithoutToolPictures
    report = run(trainer, model, ["truncated"])
    assert {"pictures", "log-probs"} <= {each.check for each in report.failed}
