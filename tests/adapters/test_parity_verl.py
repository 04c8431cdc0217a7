"""The parity kit on verl's agent loop worker, and on faults that verl has had, put back into it."""

from __future__ import annotations

import pytest

pytest.importorskip("verl", reason="needs the extra verl, in an environment of its own")

from parity_reports import failed, said
from parity_verl import OfVerl

from vagen_adapters import verl_env
from vagen_adapters.parity import run


def test_verl_trains_what_was_sampled(model):
    """verl 0.9.1 keeps no ends; it refuses the broken episode."""
    report = run(OfVerl(), model)
    vision = {"image token", "video token"}  # no refusal: it stumbles with StopIteration
    assert {each.recording for each in report.failed} <= vision
    assert "StopIteration" in said(report, "plays")
    assert {each.check for each in report.findings if each.verdict == "skip"} == {"ends"}


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
        last = (
            max(at for at, token in enumerate(output.response_ids) if token == model.image_token)
            - 4
        )
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
