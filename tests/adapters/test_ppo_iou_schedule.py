"""A training moves the IoU threshold of samples, and logs what V-Triune logs of each source."""

import json

import pytest
from copy_sampler import CopySampler
from ppo_training import config, history, lake

from vagen_adapters.errors import TrainingConfigError
from vagen_adapters.ppo.generation import SampledReply
from vagen_adapters.ppo.trainer import MultiTurnPPOTrainer
from vagen_envs.errors import MissingExtraError
from vagen_envs.sample.answer import read_boxes
from vagen_envs.sample.env import SampleEnv
from vagen_rewards import verifiers

GROUNDING = "vagen/grounding"


def samples(**options):
    return {"id": "vagen/Sample-v0", "options": {"sources": [GROUNDING], **options}}


@pytest.fixture
def scored_at(monkeypatch):
    """The threshold of each reply that has been scored, by the environment's own way to its verifiers."""
    try:
        verifiers.SCORING.prepare()
    except MissingExtraError as error:
        pytest.skip(str(error))
    seen = []

    class Recording:
        prepare = verifiers.SCORING.prepare
        reference = verifiers.SCORING.reference

        def score(self, sample, response, iou_threshold):
            seen.append(iou_threshold)
            return verifiers.score(sample, response, iou_threshold)

    monkeypatch.setattr(verifiers, "SCORING", Recording())
    return seen


def trainer_of(folder, out, *, make_sampler=None, **changes):
    run = {
        "environments": [samples()],
        "advantage": "grpo",
        "kl_coef": 0.0,
        "group_size": 2,
        "rollouts": 10,
        "episodes_per_rollout": 2,
        "num_envs": 2,
        "minibatches": 1,
        "max_length": 8192,
    }
    return MultiTurnPPOTrainer(folder, config(out, **run | changes), make_sampler=make_sampler)


def pairs(thresholds):
    """Each of them twice: of the two episodes of a rollout."""
    return [each for threshold in thresholds for each in (threshold, threshold)]


DYNAMIC = [0.85, 0.95, 0.95, *[0.99] * 7]
"""Of ten rollouts: up from 10 % and from 25 %."""


def test_a_training_moves_the_threshold_and_a_resumed_one_goes_on_there(
    scored_at, tiny_folder, tmp_path
):
    saves = {"save_strategy": "steps", "save_steps": 2, "save_total_limit": None}
    whole = trainer_of(tiny_folder, tmp_path, **saves)
    whole.train()
    assert scored_at == pairs(DYNAMIC)
    assert history(whole, "rollout/iou_threshold") == pytest.approx(DYNAMIC)
    scored_at.clear()
    resumed = trainer_of(tiny_folder, tmp_path, **saves)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert scored_at == pairs(DYNAMIC[2:])
    assert "resumed" not in resumed.card
    other = trainer_of(tiny_folder, tmp_path, iou_schedule="loose", num_envs=1, **saves)
    other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    changed = {"iou_schedule": ["dynamic", "loose"]}
    card = json.loads((tmp_path / "training.json").read_text())
    assert card["resumed"] == [{"from": "checkpoint-8", "changed": changed}]
    again = trainer_of(tiny_folder, tmp_path, iou_schedule="loose", **saves)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))
    assert again.card["resumed"] == card["resumed"]  # its weights were still trained so


def test_rollouts_that_are_begun_beside_updates_have_their_own_threshold(
    scored_at, tiny_folder, tmp_path
):
    ahead = {"max_staleness": 1, "generation": "vllm-server", "sampler_correction": "token"}
    trainer_of(tiny_folder, tmp_path, make_sampler=CopySampler, **ahead).train()
    assert scored_at == pairs(DYNAMIC)


@pytest.mark.parametrize(
    ("schedule", "options", "thresholds"),
    [
        ("fixed", {}, [0.85] * 4),
        ("loose", {}, [0.7, 0.85, 0.85, 0.85]),
        ("strict", {}, [0.9, 0.99, 0.99, 0.99]),
        ("dynamic", {"iou_threshold": 0.6}, [0.6] * 4),
    ],
)
def test_the_schedule_is_chosen_and_an_environments_own_threshold_stays(
    schedule, options, thresholds, scored_at, tiny_folder, tmp_path
):
    trainer = trainer_of(
        tiny_folder,
        tmp_path,
        environments=[samples(**options)],
        rollouts=4,
        iou_schedule=schedule,
    )
    trainer.train()
    assert scored_at == pairs(thresholds)
    fixed = schedule == "fixed" or options
    logged = history(trainer, "rollout/iou_threshold")
    assert logged == ([] if fixed else pytest.approx(thresholds))


def test_evaluations_keep_the_environments_threshold(scored_at, tiny_folder, tmp_path):
    trainer = trainer_of(tiny_folder, tmp_path, rollouts=4, eval_rollouts=2, eval_episodes=1)
    trainer.train()
    rollouts = [pairs([each]) for each in (0.85, 0.99, 0.99, 0.99)]
    assert scored_at == [*rollouts[0], *rollouts[1], 0.85, *rollouts[2], *rollouts[3], 0.85]


def test_environments_without_a_threshold_play_beside_samples(scored_at, tiny_folder, tmp_path):
    trainer = trainer_of(
        tiny_folder,
        tmp_path,
        environments=[samples(), *lake()],
        episodes_per_rollout=8,
        rollouts=2,
    )
    trainer.train()
    assert set(scored_at) == {0.85, 0.99}
    assert history(trainer, "rollout/failed") == [0, 0]


def test_an_unknown_schedule_is_refused(tmp_path):
    with pytest.raises(TrainingConfigError, match="iou_schedule='rising'"):
        config(tmp_path, iou_schedule="rising")


class Boxes:
    """Answers with the true box, but for every other reply, which is widened by a tenth."""

    def __init__(self, policy, encoder):
        self.encoder, self.said = encoder, 0

    def sync(self):
        pass

    def sample(self, prompts, sampling, seeds):
        return [self._say() for _ in prompts]

    def _say(self):
        env = self.envs[self.said % len(self.envs)].unwrapped
        box = read_boxes(env.sample.reward_model.truth)[0]
        right = box.x2 + 0.1 * (box.x2 - box.x1) * (self.said % 2)
        self.said += 1
        answer = f'[{{"bbox_2d": [{box.x1}, {box.y1}, {right}, {box.y2}], "label": "{box.label}"}}]'
        text = f"<think>x</think><answer>{answer}</answer>"
        ids = self.encoder.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids.append(self.encoder.tokenizer.eos_token_id)
        return SampledReply(tuple(ids), (-5.0,) * len(ids))


def test_the_log_has_iou_and_map_of_each_source(scored_at, tiny_folder, tmp_path):
    trainer = trainer_of(tiny_folder, tmp_path, rollouts=1, make_sampler=Boxes, max_tokens=400)
    pool = trainer.worker.rollout.environments
    sampler = trainer.worker.rollout.sampler
    sampler.envs = made = []
    take = pool.take

    def taken(level):
        made.append(take(level))
        return made[-1]

    pool.take = taken
    trainer.train()
    assert isinstance(made[0].unwrapped, SampleEnv)
    (logged,) = [entry for entry in trainer.state.log_history if "rollout/return" in entry]
    found = {
        name.removeprefix(f"source/{GROUNDING}/"): entry
        for name, entry in logged.items()
        if name.startswith(f"source/{GROUNDING}/")
    }
    shares = {50: 1.0, 75: 1.0, 95: 0.5, 99: 0.5}
    assert {at: found[f"metric/iou@{at}"] for at in shares} == shares
    assert found["metric/iou"] == pytest.approx((1 + 1 / 1.1) / 2)
    assert found["metric/accuracy"] == pytest.approx((1 + 1 / 1.1) / 2)  # at 0.85
    assert found["metric/tag_format"] == 1
    assert found["map@50"] == pytest.approx(1.0)
    assert 0.9 <= found["map"] < 1  # one of the two boxes is wrong at 0.95 only
    assert {"reply_tokens", "reflection/ratio", "success"} <= found.keys()


def test_a_training_scores_by_a_service(tiny_folder, tmp_path, monkeypatch):
    """With the verdicts of the verifiers in this process."""
    pytest.importorskip("uvicorn")
    from vagen_rewards.errors import VerifierError
    from vagen_rewards.verifiers.client import SERVICE, SERVICE_ADDRESS
    from vagen_rewards.verifiers.service import VerifierService

    by_service = [samples(scoring="vagen_rewards.verifiers.client:SERVICE")]
    run = {"rollouts": 2, "make_sampler": Boxes, "max_tokens": 400}
    monkeypatch.delenv(SERVICE_ADDRESS, raising=False)
    with pytest.raises(VerifierError, match=SERVICE_ADDRESS):
        trainer_of(tiny_folder, tmp_path, environments=by_service, rollouts=1)
    asked = []
    score = SERVICE.score
    monkeypatch.setattr(SERVICE, "score", lambda *given: asked.append(given) or score(*given))
    logs = []
    with VerifierService(workers=1) as service:
        monkeypatch.setenv(SERVICE_ADDRESS, service.address)
        for environments in ([samples()], by_service):
            trainer = trainer_of(tiny_folder, tmp_path, environments=environments, **run)
            pool, made = trainer.worker.rollout.environments, []
            trainer.worker.rollout.sampler.envs = made
            take = pool.take

            def taken(level, take=take, made=made):
                made.append(take(level))
                return made[-1]

            pool.take = taken
            trainer.train()
            logs.append(history(trainer, f"source/{GROUNDING}/metric/iou"))
    assert len(asked) == 4
    assert [threshold for *_, threshold in asked] == [0.85, 0.85, 0.99, 0.99]
    assert logs[0] == logs[1]
