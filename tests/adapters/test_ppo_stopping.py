"""Signals, kills and checkpoints at any moment: a training that goes on ends as the one that wasn't interrupted."""

import json
import os
import signal
import time

import pytest
from ppo_training import config, history, likes_short_words, same, trained, weights
from transformers import EarlyStoppingCallback, TrainerCallback

from vagen_adapters.errors import StoppedBySignalError, TrainingConfigError
from vagen_adapters.ppo import checkpoints
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer

RUN = {"rollouts": 3, "save_strategy": "steps", "save_steps": 4, "level_sampler": "difficulty"}
SIGNALLED = {**RUN, "enable_jit_checkpoint": True}


def with_signal(number, at_call, name):
    """A trainer class in which one call of a method is preceded by a signal to this process."""
    calls = []

    def act(self, *given, **options):
        calls.append(name)
        if len(calls) == at_call:
            os.kill(os.getpid(), number)
        return getattr(MultiTurnPPOTrainer, name)(self, *given, **options)

    return type("Signalled", (MultiTurnPPOTrainer,), {name: act})


@pytest.fixture(scope="module")
def uninterrupted(tiny_folder, tmp_path_factory):
    """The weights of a training that nothing ends."""
    return weights(trained(tiny_folder, tmp_path_factory.mktemp("whole"), **RUN))


@pytest.mark.parametrize(
    ("number", "at_call", "method", "left"),
    [
        (signal.SIGTERM, 1, "_between_turns", None),  # in the first rollout: nothing to keep
        (signal.SIGTERM, 1, "backward", 2),  # in the first update: the rollout's others follow
        (signal.SIGUSR1, 4, "_between_turns", 2),  # in the second rollout: played again
        (signal.SIGTERM, 4, "backward", 4),  # with a checkpoint of the schedule
        (signal.SIGTERM, 3, "_make_experience", 4),  # when nothing looks any more before the end
    ],
)
@pytest.mark.timeout(1800)  # trainings take some 15 CPU seconds, and machines may be loaded
def test_after_a_signal_a_training_goes_on_to_the_same_weights(
    number, at_call, method, left, tiny_folder, uninterrupted, tmp_path
):
    out, before = tmp_path / "stopped", signal.getsignal(number)
    cls = with_signal(number, at_call, method)
    stopped = cls(tiny_folder, config(out, **SIGNALLED), score=likes_short_words)
    if method == "_make_experience":  # the last rollout: there is no further one to leave out
        stopped.train()
        same(uninterrupted, weights(stopped))
        return
    with pytest.raises(StoppedBySignalError, match=f"after update {left or 0} of 6"):
        stopped.train()
    assert signal.getsignal(number) is before
    last = checkpoints.last_checkpoint(out)
    assert (last and last.name) == (left and f"checkpoint-{left}")
    resumed = MultiTurnPPOTrainer(tiny_folder, config(out, **SIGNALLED), score=likes_short_words)
    resumed.train(resume_from_checkpoint=True)
    same(uninterrupted, weights(resumed))


class AsksToSave(TrainerCallback):
    """Asks for a checkpoint, and maybe for an end, after the first update of the second rollout."""

    def __init__(self, *, ends):
        self.ends = ends

    def on_step_end(self, args, state, control, **_):
        if state.global_step == 3:
            control.should_save = True
            control.should_training_stop = self.ends


@pytest.mark.parametrize("ends", [False, True])
def test_a_checkpoint_within_a_rollout_waits_for_its_end(ends, tiny_folder, tmp_path):
    run = {**RUN, "save_strategy": "no"}
    whole = trained(tiny_folder, tmp_path / "whole", **run)
    asked = trained(tiny_folder, tmp_path / "asked", callbacks=[AsksToSave(ends=ends)], **run)
    assert [each.name for each in (tmp_path / "asked").glob("checkpoint-*")] == ["checkpoint-4"]
    assert asked.state.global_step == (4 if ends else 6)
    resumed = trained(tiny_folder, tmp_path / "asked", resume=True, **run)
    same(weights(whole), weights(resumed))
    assert all(loss != 0 for loss in history(resumed, "loss"))


def test_early_stopping_needs_evaluations_and_then_stops(tiny_folder, tmp_path):
    stops = EarlyStoppingCallback(early_stopping_patience=1)
    with pytest.raises(TrainingConfigError, match="set eval_rollouts"):
        trained(tiny_folder, tmp_path, callbacks=[stops])
    run = {"rollouts": 4, "eval_rollouts": 1, "eval_episodes": 1, "learning_rate": 0.0}
    trainer = trained(tiny_folder, tmp_path, callbacks=[stops], **run)
    assert trainer.state.global_step < 8


def test_the_card_lies_beside_all_weights_and_tells_trainings_apart(tiny_folder, tmp_path):
    """Also while the training goes on, and with what the caller says of it."""

    class Looks(TrainerCallback):
        def on_step_begin(self, *_, **__):
            assert (tmp_path / "training.json").is_file()

    about = {"recipe": "mine", "reasoning_reward": {"judge": "rule"}}
    settings = config(tmp_path, save_strategy="steps", save_steps=2, eval_rollouts=1)
    trainer = MultiTurnPPOTrainer(
        tiny_folder, settings, score=likes_short_words, callbacks=[Looks()], about=about
    )
    trainer.train()
    cards = [
        json.loads((tmp_path / name / "training.json").read_text())
        for name in ("", "best", "checkpoint-2")
    ]
    assert cards[0] == cards[1] == cards[2]
    assert cards[0]["reasoning_reward"] == {"judge": "rule"}
    assert cards[0]["settings"]["learning_rate"] == 1e-3
    assert cards[0]["environments"][0]["options"]["max_turns"] == 2
    assert {"torch", "transformers"} <= cards[0]["versions"].keys()


MOMENTS = [
    # before the first checkpoint that is whole
    ("training.json", signal.SIGKILL),
    ("training.json", signal.SIGTERM),
    ("checkpoint-2", signal.SIGKILL),
    ("checkpoint-2/optimizer.pt", signal.SIGKILL),
    # between checkpoints, and while one is written or takes the place of another
    ("checkpoint-2/complete", signal.SIGTERM),
    ("checkpoint-4/optimizer.pt", signal.SIGKILL),
    ("checkpoint-4/complete", signal.SIGKILL),
    ("checkpoint-6", signal.SIGTERM),
    ("checkpoint-6/complete", signal.SIGKILL),
    ("checkpoint-8", signal.SIGKILL),
]


def in_a_process(folder, out, run):
    """The id of a process that goes on with a training to its end."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        trainer = MultiTurnPPOTrainer(folder, config(out, **run), score=likes_short_words)
        trainer.train(resume_from_checkpoint=True)
        trainer.save_model(str(out / "end"))
        code = 0
    except StoppedBySignalError:
        code = 3
    finally:
        os._exit(code)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ends_at_any_moment_leave_what_goes_on_to_the_same_weights(tiny_folder, tmp_path):
    import safetensors.torch

    run = {**SIGNALLED, "save_steps": 2, "rollouts": 5}
    assert os.waitpid(in_a_process(tiny_folder, tmp_path / "whole", run), 0)[1] == 0
    out, ends = tmp_path / "ended", []
    for moment, number in MOMENTS:
        pid, over = in_a_process(tiny_folder, out, run), 0
        while not (out / moment).exists() and not over:
            time.sleep(0.001)
            over, _ = os.waitpid(pid, os.WNOHANG)
        assert not over, f"the training was over before {moment}"
        if moment == "training.json":  # which is there before the first time, too
            time.sleep(1)
        os.kill(pid, number)
        status = os.waitpid(pid, 0)[1]
        ends.append(status)
        by_signal = os.WIFSIGNALED(status) and os.WTERMSIG(status) == number
        assert by_signal or (number == signal.SIGTERM and os.WEXITSTATUS(status) == 3)
    assert any(os.WIFEXITED(status) for status in ends), "no SIGTERM found a training"
    assert os.waitpid(in_a_process(tiny_folder, out, run), 0)[1] == 0
    whole, ended = (
        safetensors.torch.load_file(tmp_path / name / "end" / "model.safetensors")
        for name in ("whole", "ended")
    )
    same(whole, ended)
