"""The parity kit on verl's agent loop worker, and on faults that verl has had, put back into it."""

from __future__ import annotations

import pytest

pytest.importorskip("verl", reason="needs the extra verl, in an environment of its own")

import numpy as np
from parity_reports import failed, said
from parity_verl import OfVerl, Server

from vagen_adapters import verl_env
from vagen_adapters.parity import run


def test_verl_trains_what_was_sampled(model):
    """verl 0.9.1 keeps no ends; it refuses the episode in which the model samples an image token, and the broken one."""
    report = run(OfVerl(), model)
    assert report.failed == ()
    assert {each.check for each in report.findings if each.verdict == "skip"} == {"ends"}
    (refused,) = [each.message for each in report.findings if (each.recording, each.check) == ("image token", "plays")]
    assert "StopIteration" in refused


@pytest.fixture
def spoiled(monkeypatch):
    """verl's worker gets a loop's output when it is spoiled."""

    def made(spoil):
        run_of = verl_env.VagenAgentLoop.run

        async def run(self, *args, **kwargs):
            return spoil(await run_of(self, *args, **kwargs))

        monkeypatch.setattr(verl_env.VagenAgentLoop, "run", run)
        return OfVerl()

    return made


def test_verl_3469_put_back_a_response_cut_within_a_picture(model, spoiled):
    def cut(output):
        last = max(at for at, token in enumerate(output.response_ids) if token == model.image_token) - 4
        for name in ("response_ids", "response_mask", "response_logprobs"):
            setattr(output, name, getattr(output, name)[:last])
        output.turn_ends = [min(end, last) for end in output.turn_ends]
        return output

    report = run(spoiled(cut), model, ["truncated"])
    assert failed(report) == {"plays"}
    assert "shape mismatch" in said(report, "plays")


def test_verl_4050_put_back_the_picture_of_a_dropped_observation_stays(model, spoiled):
    def leave(output):
        images = output.multi_modal_data["images"]
        output.multi_modal_data = {"images": [*images, images[-1]]}
        return output

    report = run(spoiled(leave), model, ["no room"])
    assert failed(report) == {"pictures", "log-probs"}
    assert "tokens 32, features 48" in said(report, "pictures")


def test_the_server_is_blind_after_the_first_turn(model, monkeypatch):
    """slime #1847, in verl's place."""
    generate = Server.generate

    async def blind(self, request_id, *, image_data=None, **kwargs):
        return await generate(self, request_id, image_data=image_data[:1], **kwargs)

    monkeypatch.setattr(Server, "generate", blind)
    report = run(OfVerl(), model, ["truncated"])
    assert failed(report) == {"pictures", "log-probs"}
    assert "the sampler was given 1 pictures for 2 places" in said(report, "pictures")


def test_pixels_are_lost_on_the_way(model, monkeypatch):
    """prime-rl #2786, in verl's place."""
    compute = OfVerl.worker._compute_multi_modal_inputs

    def without(self, *args):
        return {name: tensor for name, tensor in compute(self, *args).items() if name != "pixel_values"}

    monkeypatch.setattr(OfVerl.worker, "_compute_multi_modal_inputs", without)
    report = run(OfVerl(), model, ["truncated"])
    assert failed(report) == {"pictures", "log-probs"}
    assert "no pixels reach the forward pass" in said(report, "pictures")


def test_replies_are_tokenised_again(model, monkeypatch):
    """TRL #5224, in verl's place: the loop trains on the tokens of the words."""
    merge = verl_env.VagenAgentLoop.ct_merge_assistant_token

    async def again(self, ids, said, mask, logprobs, scores):
        new = self.tokenizer.encode(self.tokenizer.decode(said), add_special_tokens=False)
        return await merge(self, ids, new, mask, logprobs, list(np.resize(scores, len(new))))

    monkeypatch.setattr(verl_env.VagenAgentLoop, "ct_merge_assistant_token", again)
    assert "tokens" in failed(run(OfVerl(), model, ["truncated"]))
