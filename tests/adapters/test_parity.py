"""The parity kit: quiet on our trainer, and strict about what counts as a refusal."""

from __future__ import annotations

import pytest

pytest.importorskip("trl", reason="needs the extra ppo")

from parity_faults import LeavesOut, Stumbles
from parity_ppo import PPOTrainerAdapter
from parity_reports import failed

from vagen_adapters.parity import run
from vagen_adapters.parity.recordings import RECORDINGS


@pytest.mark.parametrize("context", ["all", "last:1", "last:0", "summary:2", "summary:1"])
def test_it_is_quiet_on_our_trainer(model, context):
    report = run(PPOTrainerAdapter(context), model)
    assert report.failed == ()
    assert {each.recording for each in report.findings} == {each.name for each in RECORDINGS}
    assert {each.verdict for each in report.findings} == {"pass"}


def test_the_command_prints_a_report_and_fails_where_something_does(model, capsys):
    from vagen_adapters.parity.__main__ import main

    assert main(["parity_ppo:adapter", "--folder", str(model.folder)]) == 0
    assert "52 pass, 0 fail" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no_such"):
        main(["parity_ppo:no_such"])


@pytest.mark.parametrize("recording", ["image token", "video token", "no room", "broken"])
def test_a_trainer_that_stumbles_refuses_nothing(model, recording):
    report = run(Stumbles(), model, [recording])
    assert failed(report) == {"failure" if recording == "broken" else "plays"}
    trainer = Stumbles()
    trainer.refusals = {recording: "AttributeError: generate"}
    assert run(trainer, model, [recording]).failed == ()
    trainer.refusals = {"solved": "AttributeError: generate"}
    assert run(trainer, model, ["solved"]).failed


def test_an_episode_that_is_left_out_undeclared_is_a_failure(model):
    assert failed(run(LeavesOut(), model, ["video token"])) == {"plays"}
    assert failed(run(LeavesOut(), model, ["broken"])) == set()
