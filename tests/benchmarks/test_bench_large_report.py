"""Reports that are folders, and what no report lets run."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import runs
from browser import opened
from chat_endpoint import GOOD, completion
from commands import vagen

from vagen_benchmarks.agents.chat import ChatAgent
from vagen_benchmarks.agents.scripted import Oracle, Random
from vagen_benchmarks.clients.registry import Registry
from vagen_benchmarks.report import build as report_build
from vagen_benchmarks.report import write_overview, write_report
from vagen_benchmarks.runs.run_folder import RunFolder
from vagen_benchmarks.sharing.leaderboard import write_leaderboard
from vagen_benchmarks.sharing.verify import verify


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A report of a size that is no longer one file; the limit is lower here."""
    runs.play(tmp_path / "run", [Oracle(), Random()], ["frozenlake"], episodes=40)
    monkeypatch.setattr(report_build, "LARGEST_FILE", 20_000)
    return write_report(RunFolder(tmp_path / "run"))


def test_large_reports_are_folders_with_pictures_by_reference(large, tmp_path):
    assert large == tmp_path / "run" / "report" / "index.html"
    text = large.read_text()
    assert "data:image" not in text.partition("<body")[2].partition("<script>")[0]
    assert len(text) < 250_000
    files = sorted(file.name for file in large.parent.iterdir())
    assert [name for name in files if name.endswith(".js")] == ["c0.js", "c1.js", "c2.js", "c3.js"]
    assert [name for name in files if name.startswith("p")]
    assert RunFolder(tmp_path / "run").report == large
    assert verify(RunFolder(tmp_path / "run")).wrong == []
    assert "report/index.html" in vagen("view", tmp_path / "run", "--no-browser").stdout
    page = write_overview(tmp_path, tmp_path / "index.html").read_text()
    assert 'href="run/report/index.html"' in page
    (tmp_path / "run" / "report" / "index.html").write_text(
        text.replace('"successes": 40', '"successes": 39')
    )
    assert any("table of index.html" in line for line in verify(RunFolder(tmp_path / "run")).wrong)


def test_one_form_takes_the_place_of_the_other(large, tmp_path, monkeypatch):
    monkeypatch.setattr(report_build, "LARGEST_FILE", 10**9)
    page = write_report(RunFolder(tmp_path / "run"))
    assert page == tmp_path / "run" / "report.html"
    assert not large.parent.exists()
    assert "parts." not in page.read_text().partition("<body")[2].partition("<script>")[0]
    other = write_report(RunFolder(tmp_path / "run"), tmp_path / "elsewhere.html")
    assert other == tmp_path / "elsewhere.html"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()
    assert write_report(RunFolder(tmp_path / "run"), tmp_path / "mine.html").is_file()
    assert (mine / "thesis.tex").exists()


@pytest.fixture
def server(tmp_path):
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path))
    )
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()


def dumped(browser, url, tmp_path):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
    words = [browser, *flags, f"--user-data-dir={tmp_path}/profile", "--dump-dom", url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return re.sub(r"<script\b.*?</script>", "", done.stdout, flags=re.DOTALL)


@pytest.mark.parametrize("where", ["file", "server"])
def test_episodes_and_pictures_are_shown_from_a_file_and_a_static_server(
    chromium,
    large,
    tmp_path,
    server,
    where,
):
    key = "random%20%7C%20vagen%2FFrozenLake-v0%20%7C%20test%2037"
    root = f"file://{tmp_path}" if where == "file" else server
    page = dumped(chromium, f"{root}/run/report/index.html#episode={key}&turn=1", tmp_path)
    assert "seed 37" in page
    assert "I did not look." in page
    (first, *_) = re.findall(r'<img src="(p\w+\.png)"', page)
    assert (large.parent / first).is_file()
    assert 'id="unread" hidden' in page


def test_a_page_whose_files_are_missing_says_so(chromium, large, tmp_path):
    for file in large.parent.glob("c*.js"):
        file.unlink()
    page = dumped(chromium, f"file://{large}", tmp_path)
    assert re.search(r'<p class="notice" id="unread">', page)


def test_no_script_but_the_pages_own_runs(chromium, large, tmp_path):
    """Also if text of a run got into a page as HTML, which the templates don't let happen."""
    pages = [large, write_leaderboard([tmp_path / "run"], tmp_path / "board.html")]
    pages += [write_overview(tmp_path, tmp_path / "all.html")]
    for page in pages:
        text = page.read_text()
        assert "Content-Security-Policy" in text
        attack = (
            "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
        )
        page.write_text(text.replace("</h1>", f"</h1>{attack}", 1))
        shown = dumped(chromium, f"file://{page}", tmp_path)
        assert "<h1" in shown
        assert "<title>owned" not in shown


def test_all_columns_are_there_on_a_phone(chromium, tmp_path, endpoint):
    """Each row is a card as wide as the screen, whose cells say what they are; names break at `/`."""
    endpoint.script = lambda number, body: completion({"content": GOOD}, "stop")
    model = ChatAgent(
        Registry().find("vllm:org/Model-7B-Instruct", endpoint.url), base_url=endpoint.url
    )
    runs.play(tmp_path / "run", [model], ["frozenlake"], episodes=2)
    page = write_report(RunFolder(tmp_path / "run"))
    script = """
      const frame = document.createElement('iframe');
      const wide = [...document.querySelectorAll('#results > .wide td')];
      say(JSON.stringify(wide.map((td) => td.dataset.label)));
      say(document.querySelector('td.agent').innerHTML);
    """
    shown = opened(chromium, page, tmp_path, script=script)
    labels = json.loads(re.search(r'\[(\["Environment".*?\])\]', shown)[1])
    assert labels[:4] == ["Environment", "Agent", "Success, 95 % interval", "Return"]
    assert {"Turns", "Valid", "Served by", "Seconds a reply", "Failed", "Levels"} <= {*labels}
    assert "vllm:org/<wbr>Model-7B-Instruct" in shown
