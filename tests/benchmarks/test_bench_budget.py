"""Budgets that hold, and what a run has cost."""

from __future__ import annotations

import pytest
import runs

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.errors import ProtocolError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.runner import Policy
from vagen_benchmarks.sharing.export import export

pytestmark = pytest.mark.usefixtures("keys")


def answer(text, usage):
    """A completion with this usage, or none."""
    message = {"role": "assistant", "content": text}
    return {
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        **({"usage": usage} if usage else {}),
    }


def play(path, url, episodes, policy, name="gpt-4o"):
    agent = ChatAgent(Registry().find(name, url), base_url=url, patience=0.0, first_wait=0.01)
    return runs.play(path, [agent], policy=policy, episodes=episodes)


def dollars(path):
    return sum(
        call["dollars"] for episode in RunFolder(path).all_episodes() for call in episode.calls
    )


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 1500, "completion_tokens": 390}])
def test_dollars_are_held_with_many_in_flight(tmp_path, endpoint, usage):
    endpoint.script = lambda number, body: answer(endpoint.good, usage)
    cap = 0.2
    outcome = play(tmp_path / "run", endpoint.url, 200, Policy(concurrency=64, max_dollars=cap))
    assert f"the budget of ${cap:g} is spent" in outcome.reason
    assert 5 < outcome.played < 200
    assert outcome.failed == 0
    assert 0.5 * cap < dollars(tmp_path / "run") <= cap
    bill = outcome.usage["gpt-4o"]
    assert bill.dollars <= cap
    assert bill.requests == len(endpoint.requests)
    assert (bill.estimated == bill.requests) == (usage is None)
    calls = [
        call for episode in RunFolder(tmp_path / "run").all_episodes() for call in episode.calls
    ]
    assert {call["estimated"] for call in calls} == {usage is None}
    assert all(call["prompt_tokens"] > 500 and call["completion_tokens"] > 10 for call in calls)


def test_nothing_is_asked_that_the_budget_cannot_pay(tmp_path, endpoint):
    outcome = play(tmp_path / "run", endpoint.url, 5, Policy(max_dollars=0.000001))
    assert (outcome.played, outcome.failed, outcome.left, len(endpoint.requests)) == (0, 0, 5, 0)
    assert "the budget of $1e-06 is spent: $0.0000 so far" in outcome.reason
    outcome = play(tmp_path / "run", endpoint.url, 5, Policy(max_total_tokens=400))
    assert (outcome.played, outcome.left) == (0, 5)
    assert "the budget of 400 tokens is spent" in outcome.reason


def test_what_was_spent_before_counts_after_a_resume(tmp_path, endpoint):
    endpoint.script = lambda number, body: answer(
        endpoint.good, {"prompt_tokens": 2000, "completion_tokens": 100}
    )
    policy = Policy(concurrency=4, max_total_tokens=40_000)
    first = play(tmp_path / "run", endpoint.url, 12, policy)
    assert 0 < first.played < 12
    asked = len(endpoint.requests)
    again = play(tmp_path / "run", endpoint.url, 12, policy)
    assert again.played <= 1
    assert len(endpoint.requests) * 2100 <= 40_000
    assert len(endpoint.requests) - asked <= 3
    done = play(tmp_path / "run", endpoint.url, 12, Policy(concurrency=4))
    assert (done.left, done.reason) == (0, "")
    assert done.usage["gpt-4o"].requests == len(endpoint.requests)


def test_dollars_need_a_price(tmp_path, endpoint):
    with pytest.raises(ProtocolError, match="no price is known of openai:m"):
        play(tmp_path / "run", endpoint.url, 1, Policy(max_dollars=1.0), name="openai:m")


@pytest.mark.parametrize("tokens", [10**400, -5, True, 3.5, "many", None])
def test_numbers_that_are_none_are_counted_by_us(tmp_path, endpoint, tokens):
    endpoint.script = lambda number, body: answer(
        endpoint.good, {"prompt_tokens": tokens, "completion_tokens": 5}
    )
    outcome = play(tmp_path / "run", endpoint.url, 1, Policy())
    assert outcome.played == 1
    assert outcome.usage["gpt-4o"].estimated == 3
    assert outcome.usage["gpt-4o"].prompt_tokens < 20_000


def test_money_stands_in_the_table_the_report_and_the_export(tmp_path, endpoint):
    pq = pytest.importorskip("pyarrow.parquet")
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 800},
    }
    endpoint.script = lambda number, body: answer(endpoint.good, usage)
    bill = play(tmp_path / "run", endpoint.url, 2, Policy()).usage["gpt-4o"]
    (row,) = runs.rows(tmp_path / "run")
    wanted = 6 * (200 * 2.50 + 800 * 1.25 + 100 * 10.00) / 1e6
    assert (bill.prompt_tokens, bill.cached_tokens, bill.completion_tokens) == (6000, 4800, 600)
    assert bill.dollars == pytest.approx(wanted)
    assert row["dollars"] == pytest.approx(wanted)
    assert (row["cached_tokens"], row["counted_by_us"]) == (4800, 0)
    export(RunFolder(tmp_path / "run"), tmp_path / "turns.parquet", "turns")
    table = pq.read_table(tmp_path / "turns.parquet").to_pydict()
    assert sum(table["dollars"]) == pytest.approx(wanted)
    assert set(table["cached_tokens"]) == {800}
    page = write_report(RunFolder(tmp_path / "run")).read_text()
    assert '"dollars":' in page
    assert "Cached" in page


@pytest.mark.parametrize(
    ("more", "written", "cached"),
    [
        ({"total_tokens": 1700}, 700, None),  # reasoning that is counted in the total alone is paid
        ({"total_tokens": 1100}, 100, None),
        ({"total_tokens": None}, 100, None),
        ({"prompt_cache_hit_tokens": 800}, 100, 800),  # DeepSeek's name
    ],
)
def test_tokens_are_counted_wherever_providers_name_them(tmp_path, endpoint, more, written, cached):
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "completion_tokens_details": {"reasoning_tokens": 600},
    }
    endpoint.script = lambda number, body: answer(endpoint.good, usage | more)
    play(tmp_path, endpoint.url, 1, Policy(concurrency=1))
    calls = [call for episode in runs.episodes(tmp_path) for call in episode.calls]
    assert {(call["completion_tokens"], call["cached_tokens"]) for call in calls} == {
        (written, cached)
    }
