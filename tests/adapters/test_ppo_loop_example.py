"""`examples/ppo_loop.py`, which reads without the trainer: its parts against the package's, and literal loops."""

import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from vagen_adapters.ppo import losses  # noqa: E402

FILE = Path(__file__).parents[2] / "examples" / "ppo_loop.py"
FEW = ["--pictures", "20", "--eyes", "2", "--imitation", "2", "--rollouts", "1", "--episodes", "4", "--levels", "8"]
END = 7


@pytest.fixture(scope="module")
def loop():
    spec = importlib.util.spec_from_file_location("ppo_loop", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ppo_loop"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["ppo_loop"]


@pytest.fixture
def rollout(loop):
    """Three episodes, of three turns, one and two, in the order in which they are played side by side."""
    turns = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (0, 2)]
    generator = torch.Generator().manual_seed(0)
    ends = {(0, 2): "truncated", (1, 0): "terminated", (2, 1): "terminated"}
    lengths = [4, 3, 1, 5, 2, 4]
    replies = torch.tensor([[1] * (n - 1) + [END] * (6 - n) if n < 5 else [1] * 5 for n in lengths])
    return loop.Rollout(
        seen=torch.zeros(6, 2, 4, 8),
        replies=replies,
        logprobs=torch.zeros(6, loop.LONGEST),
        rewards=torch.randn(6, generator=generator),
        episode=torch.tensor([episode for episode, _ in turns]),
        turn=torch.tensor([turn for _, turn in turns]),
        terminated=torch.tensor([ends.get(each) == "terminated" for each in turns]),
        truncated=torch.tensor([ends.get(each) == "truncated" for each in turns]),
        success=0.0,
    ), lengths


def test_its_advantages_are_those_of_a_literal_loop_over_turns(loop, rollout):
    played, lengths = rollout
    values = torch.randn(6, generator=torch.Generator().manual_seed(1))
    found = loop.estimate(played, values, END)
    wanted = {}
    for episode, rows in {0: [0, 3, 5], 1: [1], 2: [2, 4]}.items():
        ahead, after = 0.0, 0.0
        for row in reversed(rows):
            delta = float(played.rewards[row]) + loop.GAMMA * after - float(values[row])
            ahead = delta + loop.GAMMA * loop.LAMBDA * ahead
            after = float(values[row])
            wanted[row] = ahead
        assert episode < 3
    for row, length in enumerate(lengths):
        spoken = min(length, loop.LONGEST)
        assert found.mask[row].tolist() == [True] * spoken + [False] * (loop.LONGEST - spoken)
        torch.testing.assert_close(found.advantages[row, :spoken], torch.full((spoken,), wanted[row]))
        assert math.isclose(float(found.returns[row, 0]), wanted[row] + float(values[row]), rel_tol=1e-5)


def test_its_losses_are_the_package_s(loop):
    generator = torch.Generator().manual_seed(2)
    now, old, start, advantages = torch.randn(4, 50, generator=generator)
    surrogate, gone = loop.ppo_losses(now, old, start, advantages)
    one_turn = torch.arange(50)[None]  # a turn each
    ratios = losses.probability_ratios(now[None], old[None], one_turn, "token")
    clipped = losses.policy_losses(ratios, advantages[None], loop.CLIP, loop.CLIP)[0]
    torch.testing.assert_close(surrogate, clipped)
    assert not torch.equal(clipped, -ratios[0] * advantages)  # some were clipped
    torch.testing.assert_close(gone, losses.kl_estimates(now, start, "k3"))


def test_what_is_learned_from_is_as_likely_as_when_it_was_sampled(loop):
    """Sampling keeps keys and values, token by token; learning reads all at once."""
    model, codec = loop.tiny.load(loop.FOLDER / "frozenlake")
    moments = loop.noisy_play(codec, 0)
    policy = loop.Policy(model.float(), codec, next(moments)[0])
    seen = policy.look([next(moments)[0] for _ in range(3)])
    replies, logprobs = policy.reply(seen, False, torch.Generator().manual_seed(0))
    torch.testing.assert_close(policy.logprobs(seen, replies), logprobs, atol=1e-4, rtol=1e-4)
    shown = [next(moments)[0] for _ in range(2)]
    whole = model(
        input_ids=torch.tensor([[*each.first_ids, *replies[0].tolist()] for each in shown]),
        mm_token_type_ids=torch.tensor([[int(i == codec.image_token_id) for i in (*each.first_ids, *[0] * 5)] for each in shown]),
        pixel_values=torch.cat([each.pixel_values for each in shown]),
        image_grid_thw=torch.cat([each.grids for each in shown]),
    ).logits[:, -6:-1].index_fill(2, torch.tensor(codec.forbidden_ids), -1e9).log_softmax(2)  # fmt: skip
    said = replies[:1].expand(2, -1)
    torch.testing.assert_close(policy.logprobs(policy.look(shown), said), whole.gather(2, said[..., None]).squeeze(2),
                               atol=1e-4, rtol=1e-4)  # fmt: skip


def test_it_runs_and_is_short(loop, monkeypatch, capsys):
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 300
    monkeypatch.setattr(sys, "argv", [str(FILE), *FEW])
    loop.main()
    said = capsys.readouterr().out
    assert re.search(r"rollout 0: success \S+, the critic explains", said)
    assert len(re.findall(r"of 8 test levels it solves \d\.\d{3}", said)) == 2


@pytest.mark.parametrize(
    ("words", "least"), [(["--seed", "-1"], 0), (["--episodes", "0"], 1), (["--pictures", "1"], 2)]
)
def test_what_no_run_can_begin_with_is_refused_in_a_line(words, least, loop, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(FILE), *FEW, *words])
    with pytest.raises(SystemExit):
        loop.main()
    said = capsys.readouterr().err
    assert f"argument {words[0]}: {words[1]} is not valid: it must be at least {least}" in said


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_it_learns_frozenlake_in_ten_minutes_of_a_core():
    done = subprocess.run([sys.executable, FILE], capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    seconds, solved = re.search(r"^ *(\d+) s .* it solves (\d\.\d+)", last).groups()
    assert float(solved) >= 0.6
    assert int(seconds) < 900  # ten minutes on the machine of the docs' figures, less than twice that elsewhere
