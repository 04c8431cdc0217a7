"""The report: its numbers, its self-containment, and how it behaves in a real browser."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
import runs
from browser import opened
from runs import play

from vagen_benchmarks.agents import Agent, Reply
from vagen_benchmarks.agents.custom import custom_agent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.report import write_report
from vagen_benchmarks.results.stats import wilson
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.runs.scoring import make_scoring
from vagen_benchmarks.runs.tasks import Skipped

HOSTILE = "</script><script>document.title='owned'</script><answer>Fly 😀</answer><img src=x onerror=\"document.title='owned'\">"


class Hostile(Agent):
    """Writes what could break a page, and fails on odd seeds."""

    name = "hostile </script><b>"

    def reply(self, game):
        if game.seed % 2:
            raise EndpointError("server_error", HOSTILE)
        return Reply(HOSTILE)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "run <1>"
    play(
        path,
        [Oracle(), Random(), Hostile()],
        skipped=[Skipped("vagen/Far-v0", "needs the moon <b>")],
        episodes=30,
    )
    return write_report(RunFolder(path))


def data_of(page):
    """What a page shows, as its scripts read it."""
    return json.loads(re.search(r'id="page">(.*?)</script>', page.read_text(), re.DOTALL)[1])


def link(agent, seed, turn):
    return f"#episode={quote(f'{agent} | vagen/Sokoban-v0 | test {seed}')}&turn={turn}"


def test_page_names_nothing_outside_itself(report):
    text = report.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:|//)""", text)
    assert "@import" not in text
    assert "fetch(" not in text


def test_rows_are_the_numbers_of_the_run(report):
    data = data_of(report)
    rows = {row["agent"]: row for row in data["rows"]}
    oracle, hostile = rows["oracle"], rows[Hostile.name]
    assert (oracle["played"], oracle["successes"], oracle["valid"], oracle["well_formed"]) == (
        30,
        30,
        1.0,
        1.0,
    )
    levels = len({episode.content for episode in RunFolder(report.parent).episodes()})
    assert oracle["levels"] == levels <= 30  # two seeds may draw the same board
    assert (oracle["low"], oracle["high"]) == pytest.approx(wilson(levels, levels), abs=0.03)
    assert (hostile["played"], hostile["failed"], hostile["failures"]) == (
        15,
        15,
        {"server_error": 15},
    )
    assert (hostile["success"], hostile["valid"]) == (0.0, 0.0)
    episodes = list(RunFolder(report.parent).episodes())
    scores = [episode.score for episode in episodes if episode.agent == "random"]
    assert rows["random"]["return"] == pytest.approx(sum(scores) / 30)


def test_page_shows_table_episode_and_notices(chromium, report, tmp_path):
    page = opened(chromium, report, tmp_path)
    for said in (
        "100 %",
        "– 100",
        "15 of 90 episodes failed",
        "Far-v0 skipped:",
        "needs the moon <b>",
        "90 episodes",
    ):
        assert said in page
    assert page.count("data:image/png;base64,") == 2
    assert f"<title>oracle, random, {Hostile.name} on Sokoban · run <1></title>" in page


def test_a_text_run_is_named_as_one(chromium, tmp_path):
    options = {"observation": "text", "max_turns": 2}
    report = write_report(RunFolder(one_run(tmp_path / "run", Oracle(), options=options)))
    assert "<b>FrozenLake-v0</b> observation=text max_turns=2" in report.read_text()
    page = opened(chromium, report, tmp_path)
    assert "FrozenLake-v0 observation=text max_turns=2, seed 0" in page
    assert "Observation before" in page


def test_replies_whose_answers_differ_are_counted(tmp_path):
    wavering = custom_agent(
        lambda game: "<think>t</think><answer>Up</answer> No: <answer>Down</answer>"
    )
    run = RunFolder(
        one_run(tmp_path / "run", wavering, options={"strategy": "free_think", "max_turns": 1})
    )
    assert (
        "<b>3 replies</b> contain several complete answers that differ"
        in write_report(run).read_text()
    )


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """An oracle that tells no lie beside an agent that does, both judged."""
    path = tmp_path_factory.mktemp("judged") / "run"
    play(
        path,
        [Oracle(), runs.Liar()],
        ["frozenlake"],
        scoring=make_scoring({"judge": "rule"}),
        episodes=4,
    )
    return write_report(RunFolder(path))


def test_verdicts_stand_with_their_reasons(chromium, judged, tmp_path):
    (first, *_) = [e for e in RunFolder(judged.parent).episodes() if e.agent == "oracle"]
    page = opened(chromium, judged, tmp_path)
    assert "judged by rule:" in page
    assert page.count('<span class="chip verdict done">1.00</span>') == 2
    assert first.turns[0]["metrics"]["grounding_reason"] in page
    liar = "#episode=" + quote("liar | vagen/FrozenLake-v0 | test 0")
    page = opened(chromium, judged, tmp_path, liar)
    (lie, *_) = [e for e in RunFolder(judged.parent).episodes() if e.agent == "liar"]
    scores = [lie.turns[0]["metrics"].get(part) for part in ("grounding", "world_modeling")]
    assert 0.0 in scores
    assert page.count('<span class="chip verdict refused">0.00</span>') == scores.count(0.0)


def test_plots_and_error_filter(chromium, judged, tmp_path):
    script = """
      say([...document.querySelectorAll('#plots figcaption')].map((node) => node.textContent).join('; '));
      document.querySelectorAll('#plots figure')[0].querySelectorAll('g.pick')[1].dispatchEvent(new MouseEvent('click')); await wait();
      say(document.querySelector('#filters').agent.value);
      form.agent.value = ''; await fill('problem', 'grounding wrong');
      say(document.querySelector('#count').textContent);
      await press(' '); say(document.querySelector('.play').textContent);
    """
    page = opened(chromium, judged, tmp_path, "", script)
    assert (
        "[Success, with 95 % interval; Share of episodes with an error; Turns of an episode" in page
    )
    assert "[liar]" in page
    assert "[4 episodes, 0 solved]" in page
    assert "[pause]" in page


def test_thousands_of_episodes_are_listed_at_once(chromium, report, tmp_path):
    """The list draws the rows in sight only, whatever the number of episodes."""
    data = data_of(report)
    data["episodes"] = [
        [*row[:2], seed, *row[3:]] for seed in range(100) for row in data["episodes"]
    ]
    many = tmp_path / "many.html"
    inert = json.dumps(data).replace("<", "\\u003c")
    many.write_text(
        re.sub(
            r'(id="page">).*?(</script>)',
            lambda m: m[1] + inert + m[2],
            report.read_text(),
            flags=re.DOTALL,
        )
    )
    page = opened(chromium, many, tmp_path)
    assert "9000 episodes, " in page
    assert 5 < page.count('class="dot ') < 60


def test_link_leads_to_a_turn(chromium, report, tmp_path):
    last = next(
        e for e in RunFolder(report.parent).episodes() if e.agent == "random" and e.seed == 7
    ).turns[-1]
    page = opened(chromium, report, tmp_path, link("random", 7, 3))
    assert "Sokoban-v0, seed 7" in page
    assert f'<span class="answer">{last["parsed"]["answer"]}</span>' in page
    for term in last["rewards"]:
        assert f"<td>{term['name'].replace('_', ' ')}</td>" in page


def test_nothing_a_model_writes_becomes_markup(chromium, report, tmp_path):
    page = opened(chromium, report, tmp_path, link(Hostile.name, 0, 1))
    assert "owned</title>" not in page
    assert "unknown_action" in page
    assert '<span class="chip refused"' in page
    page = opened(chromium, report, tmp_path, link(Hostile.name, 1, 1))
    assert "owned</title>" not in page
    assert "server_error:" in page


def test_keys_filters_and_comparison(chromium, report, tmp_path):
    script = """
      await press('ArrowRight'); say(location.hash);
      await press('ArrowDown'); say(location.hash);
      await fill('agent', 'random'); say(document.querySelector('#count').textContent);
      await fill('beside', 'oracle');
      say([...document.querySelectorAll('.panel .meta b')].map((node) => node.textContent).join(' and '));
    """
    page = opened(chromium, report, tmp_path, "", script)
    assert "[#episode=oracle%20%7C%20vagen%2FSokoban-v0%20%7C%20test%200&turn=2]" in page
    assert (
        "[#episode=random%20%7C%20vagen%2FSokoban-v0%20%7C%20test%200&turn=1]" in page
    )  # the next by seed
    assert "[30 episodes, " in page
    assert "[random and oracle]" in page


def one_run(path, *agents, env="frozenlake", **options):
    play(path, agents, [env], episodes=3, **options)
    return path


def test_columns_sort_and_texts_are_searched(chromium, report, tmp_path):
    script = """
      const agents = () => [...document.querySelectorAll('#results > .wide tbody tr')].map((tr) => tr.children[1].textContent).join(',');
      const head = [...document.querySelectorAll('#results > .wide th')].find((th) => th.textContent === 'Return');
      say(agents());
      for (let i = 0; i < 3; i++) { head.click(); say(agents()); }
      await fill('words', 'OnError=', 600); say([...new Set(listed.map((each) => each.agent))].join(','));
      await fill('words', 'no such words', 600); say(document.querySelector('#count').textContent);
      await fill('words', '', 600); say(listed.length === episodes.length);
      await fill('order', 'return'); say(listed.every((each, i) => !i || each.failure || each.score <= listed[i - 1].score));
    """
    said = re.findall(r"<hr>\[([^\[\]]*)\]", opened(chromium, report, tmp_path, "", script))
    rows = data_of(report)["rows"]
    agents = [row["agent"] for row in rows]
    by_return = [row["agent"] for row in sorted(rows, key=lambda row: -row["return"])]
    assert said[:4] == [",".join(each) for each in (agents, by_return, by_return[::-1], agents)]
    assert said[4:] == [Hostile.name, "0 episodes, 0 solved", "true", "true"]
