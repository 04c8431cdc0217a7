"""Keys are searched byte for byte in all that a run writes and prints, however they were given and came back."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from urllib.parse import quote

import pytest
from chat_endpoint import GOOD, completion, raw
from commands import vagen
from hypothesis import given
from hypothesis import strategies as st

from vagen_benchmarks.redaction import filled, note_secret, redact, withheld, withheld_names

SECRET = "az-9f8e7d6c5b4a\"<&'3210"  # noqa: S105
"""With characters that JSON, HTML, URLs and Python's source write otherwise."""
PLAIN = "sk-9f8e7d6c5b4a3210"
"""For where those aren't allowed."""


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """What other tests of this process gave as keys is forgotten."""
    monkeypatch.setattr("vagen_benchmarks.redaction._known", {})


def failing(echo, status=400, **fields):
    return status, {}, {"error": {"message": f"refused: {echo}", **fields}}


def text_of(words):
    return {"type": "text", "text": words}


PLACES = {
    "reply": lambda echo: f"<think>{echo}</think><answer>Up</answer>",
    "answer": lambda echo: f"<think>I</think><answer>{echo}</answer>",
    "reasoning": lambda echo: {"content": GOOD, "reasoning_content": echo},
    "refusal": lambda echo: {"content": None, "refusal": echo},
    "parts": lambda echo: {"content": [{"type": "text", "text": echo}]},
    "model": lambda echo: {**completion({"content": GOOD}, "stop"), "model": echo},
    "error": failing,
    "long error": lambda echo: failing("x" * 980 + echo),
    "nested error": lambda echo: failing(json.dumps({"error": {"message": echo}})),
    "page": lambda echo: raw(f"<title>{html.escape(echo)}</title>", "text/html", "403 Forbidden"),
    "text": lambda echo: raw("x" * 250 + echo, "text/plain"),
    "redirect": lambda echo: (307, {"location": f"http://other/{quote(echo)}"}, {}),
    "error with status 200": lambda echo: {"error": {"message": echo, "code": 400}},
    "outage": lambda echo: failing(echo, 503),
    "path of a URL": lambda echo: failing(quote(echo)),
    "other case": lambda echo: failing(echo.upper()),
    "base64": lambda echo: failing(base64.b64encode(echo.encode()).decode()),
    "two parts": lambda echo: {"content": [text_of(echo[:-9]), text_of(echo[-9:])]},
    "two thoughts": lambda echo: {
        "content": GOOD,
        "reasoning_details": [{"text": echo[:-9]}, {"text": echo[-9:]}],
    },
}
"""What an endpoint does with what it was sent."""
WAYS = {
    "key of the environment": ([], {"VLLM_API_KEY": PLAIN}),
    "header with a variable": (["--header", "X-Mine=Bearer $MINE"], {"MINE": SECRET}),
    "header": (["--header", f"Authorization=Bearer {PLAIN}"], {}),
    "extra": (["--extra", f"api_key={SECRET}"], {}),
    "nested extra": (["--extra", f'extra_headers={{"x": {json.dumps(SECRET)}}}'], {}),
    "extra with a variable": (["--extra", "access_token=$MINE"], {"MINE": SECRET}),
    "password of the URL": (["--base-url", f"http://me:{PLAIN}@HOST/v1"], {}),
    "user of the URL": (["--base-url", f"http://{PLAIN}@HOST/v1"], {}),
    "parameter of the URL": (["--base-url", f"http://HOST/v1?subscription={PLAIN}"], {}),
    "key of a model of one's own": (["--models", "MODELS", "-a", "mine"], {"MINE": PLAIN}),
}
"""How a key is given."""
MODELS = """
[providers.mine]
client = "openai"
key = "MINE"
[models.mine]
provider = "mine"
id = "m"
"""


def packed(page):
    """The unpacked episodes of a report."""
    for found in re.findall(r'id="c\d+">([^<]*)</script>', page):
        yield gzip.decompress(base64.b64decode(found)).decode()


def everything(folder):
    """All bytes of a folder's files, and what its pages hold packed."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            yield str(file), data.decode("latin-1")
            for text in packed(data.decode(errors="replace")) if file.suffix == ".html" else ():
                yield f"{file}, packed", text


@pytest.mark.parametrize("way", WAYS)
def test_no_key_is_written_or_printed(tmp_path, monkeypatch, endpoint, way):
    given, variables = WAYS[way]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    key = SECRET if SECRET in (*variables.values(), *given) or "extra" in way else PLAIN
    models = tmp_path / "models.toml"
    models.write_text(MODELS)
    host = endpoint.root.removeprefix("http://")
    words = [each.replace("HOST", host).replace("MODELS", str(models)) for each in given]
    words += [] if "--base-url" in words else ["--base-url", endpoint.url]
    words += [] if "-a" in words else ["-a", "vllm:m"]

    def script(number, body):
        sent = {**endpoint.headers[number], "path": endpoint.paths[number], "body": body}
        sent["body"].pop("messages")
        if "authorization" in sent and sent["authorization"].startswith("Basic"):
            sent["decoded"] = base64.b64decode(sent["authorization"][6:]).decode()
        nested = body.pop("extra_headers", {})
        values = [str(value) for each in (sent, body, nested) for value in each.values()]
        assert any(key in value for value in values) or quote(key) in sent["path"], sent
        return list(PLACES.values())[number % len(PLACES)](" ".join(values))

    endpoint.script = script
    run = tmp_path / "out" / "run"
    how = ["--concurrency", 1, "--attempts", 1, "--patience", 0, "--give-up-after", 99]
    asked = ["bench", "-e", "frozenlake", "-n", 24, "-o", "max_turns=2", "--out", run, *how]
    said = [vagen(*asked, *words)]
    assert len(endpoint.requests) > len(PLACES), said
    again = [
        word
        for pair in zip(words[::2], words[1::2], strict=True)
        if pair[0] != "-a"
        for word in pair
    ]
    said.append(vagen("resume", run, *again, "--patience", 0, "--attempts", 1))
    assert "episodes are there already" in said[-1].stdout, said[-1]
    said += [
        vagen(*words)
        for words in (
            ["verify", run],
            ["view", run, "--no-browser"],
            ["view", run.parent, "--no-browser"],
            ["compare", run, run],
            ["export", run, run.parent / "turns.jsonl", "--form", "turns"],
            ["export", run, run.parent / "chats.jsonl"],
            ["leaderboard", "page", run, "--out", run.parent / "board.html"],
            [
                "models",
                "try",
                words[words.index("-a") + 1],
                *again[: 2 if again[0] == "--base-url" else 0],
            ],
        )
    ]
    texts = [(str(done[0]), f"{done.stdout}{done.stderr}") for done in said]
    texts += everything(tmp_path / "out")
    assert len(texts) > 15
    forms = [
        key,
        json.dumps(key)[1:-1],
        html.escape(key),
        quote(key, safe=""),
        quote(key),
        key[:12],
    ]
    forms += [key.upper()[:12], *(base64_of(key, shift) for shift in range(3))]
    for where, text in texts:
        for form in forms:
            assert form not in text, (where, text[max(0, text.index(form) - 200) :][:300])


def base64_of(key, shift):
    """What base64 of any text with the key holds where it begins `shift` bytes into a group."""
    return base64.b64encode(b"x" * shift + key.encode())[4:-4].decode()


def test_what_stands_for_a_key_names_it(tmp_path, monkeypatch, endpoint):
    monkeypatch.setenv("MINE", SECRET)
    endpoint.script = lambda number, body: failing(endpoint.headers[number]["api-key"])
    words = f"bench -e sokoban -a vllm:m -n 1 --base-url {endpoint.url} --header api-key=$MINE"
    done = vagen(*words.split(), "--out", tmp_path / "run")
    assert "[header api-key]" in done.stderr
    (line,) = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert "[header api-key]" in json.loads(line)["ended"]["message"]


def test_a_withheld_secret_must_be_given_again(tmp_path, endpoint):
    run = tmp_path / "run"
    words = (
        f"bench -e sokoban -a vllm:m -n 2 --base-url {endpoint.url} --attempts 1 --concurrency 1"
    )
    given = ["--extra", f"api_key={PLAIN}", "--header", f"x-mine={PLAIN}"]
    endpoint.script = lambda number, body: 400 if number else GOOD
    assert vagen(*words.split(), *given, "--out", run).returncode == 1
    for missing in (given[:2], given[2:]):
        done = vagen("resume", run, *missing)
        assert (done.returncode, "give it again" in " ".join(done.stderr.split())) == (2, True)
    endpoint.script = lambda number, body: GOOD
    assert vagen("resume", run, *given).returncode == 0
    assert endpoint.requests[-1]["api_key"] == PLAIN
    assert endpoint.headers[-1]["x-mine"] == PLAIN


def test_bad_options_do_not_repeat_a_key(tmp_path):
    for pair in (["--header", f"Authorization: Bearer {PLAIN}"], ["--extra", f"api_key: {PLAIN}"]):
        done = vagen("bench", "-e", "sokoban", "-a", "openai:m", *pair)
        assert done.returncode == 2
        assert PLAIN not in done.stderr
    done = vagen(
        "bench", "-e", "sokoban", "-a", "vllm:m", "--base-url", f"ftp://me:{PLAIN}@host?a={PLAIN}"
    )
    assert (done.returncode, PLAIN in done.stderr) == (2, False)


def test_an_agent_that_breaks_prints_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("ANY_API_KEY", SECRET)
    file = tmp_path / "mine.py"
    file.write_text(
        "import logging, os\n"
        "def agent(game):\n"
        "    logging.getLogger('mine').warning('with %s', os.environ['ANY_API_KEY'])\n"
        "    raise RuntimeError(os.environ['ANY_API_KEY'])\n"
    )
    done = vagen(
        "bench", "-e", "sokoban", "-n", 1, "-a", f"{file}:agent", "--out", tmp_path / "run"
    )
    assert "[ANY_API_KEY]" in done.stderr
    assert not [where for where, text in everything(tmp_path / "run") if SECRET[:12] in text]
    assert SECRET[:12] not in done.stdout + done.stderr


def test_a_traceback_holds_no_key(monkeypatch):
    monkeypatch.setenv("ANY_API_KEY", SECRET)

    def broken():
        raise MemoryError(SECRET)

    monkeypatch.setattr("vagen_benchmarks.cli.app", broken)
    done = vagen("envs")
    assert done.returncode == 1
    assert "MemoryError: [ANY_API_KEY]" in done.stderr


@given(st.text(min_size=6).filter(lambda text: not text.isalpha() and any(map(str.isalpha, text))))
def test_a_secret_is_found_in_every_form(secret):
    note_secret("mine", secret)
    for form in (secret, json.dumps(secret), json.dumps(json.dumps(secret)), html.escape(secret)):
        assert secret not in redact(f"<{form}>")


def test_words_and_numbers_are_no_secrets():
    for word in ("EMPTY", "observation", "box", "12345678", "Left"):
        note_secret("key", word)
        assert redact(f"go {word} now") == f"go {word} now"


def test_only_secret_fields_are_withheld(monkeypatch):
    monkeypatch.setenv("MINE", PLAIN)
    plain = {"max_tokens": 5, "prompt_cache_key": "a-cache-key-1", "thinking": {"budget": "$5"}}
    assert withheld(plain) == filled(plain) == plain
    hidden = withheld({"a": [{"api_key": PLAIN}], "token": "$MINE"})
    assert (list(withheld_names(hidden)), hidden["token"]) == (["api_key"], "$MINE")
    assert filled({"auth": {"token": "$MINE"}}) == {"auth": {"token": PLAIN}}


def test_a_secret_of_ones_own_registry_is_read_there_again(tmp_path, endpoint):
    models = tmp_path / "models.toml"
    models.write_text(f'{MODELS}extra = {{ api_key = "{PLAIN}" }}\n')
    words = ["bench", "-e", "sokoban", "-a", "mine", "-n", 2, "--base-url", endpoint.url]
    words += ["--models", models, "--out", tmp_path / "run", "--attempts", 1, "--concurrency", 1]
    endpoint.script = lambda number, body: 400 if number else GOOD
    assert vagen(*words).returncode == 1
    assert PLAIN not in (tmp_path / "run" / "protocol.json").read_text()
    endpoint.script = lambda number, body: GOOD
    assert vagen("resume", tmp_path / "run").returncode == 0
    assert endpoint.requests[-1]["api_key"] == PLAIN
