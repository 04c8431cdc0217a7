"""What a client keeps of its sessions, against a server that loses them as the test says."""

from __future__ import annotations

import numpy as np
import pytest

from vagen_adapters.service.journal import Journal, SessionReply
from vagen_envs.errors import RecordError
from vagen_envs.pictures import Picture

A, B = "session-a-0123456", "session-b-0123456"
LAKE = "vagen/FrozenLake-v0"


class Sends:
    """A server that answers as sessions do, keeps what it was sent, and fails as its script says.

    `script` has, by the number of the request from 1, codes of failures by session.
    """

    def __init__(self, script=None):
        self.script, self.log = script or {}, []

    def __call__(self, verb, items):
        self.log.append((verb, [dict(item) for item in items]))
        failing = self.script.get(len(self.log), {})
        return [self._answer(verb, item, failing.get(item["session"])) for item in items]

    def _answer(self, verb, item, code):
        if code is not None:
            return SessionReply({"error": {"code": code, "message": "said"}}, None)
        data = {"verb": verb, "digest": f"digest {len(self.log)}"}
        if verb == "reset":
            data["level"] = {"seed": 7, "split": "train", "content": "c"}
        return SessionReply(data, None)

    @property
    def verbs(self):
        return [verb for verb, _ in self.log]

    @property
    def last(self):
        return self.log[-1][1][0]


def opened(script=None, sessions=(A,)):
    sends = Sends(script)
    journal = Journal(sends)
    for session in sessions:
        journal.ask("open", [{"session": session, "env_id": LAKE, "options": {"max_turns": 3}}])
    return journal, sends


def ask(journal, verb, session=A, **item):
    (reply,) = journal.ask(verb, [{"session": session, **item}])
    return reply


def test_moves_are_numbered_and_steps_name_the_answer_before():
    journal, sends = opened(sessions=(A, B))
    for verb, session, expected in (
        ("reset", A, {"move": 1, "seed": 3}),
        ("step", A, {"move": 2, "reply": "one", "after": "digest 3"}),
        ("reset", B, {"move": 1}),
        ("step", A, {"move": 3, "reply": "two", "after": "digest 4"}),
        ("reset", A, {"move": 4}),
        ("step", B, {"move": 2, "reply": "x", "after": "digest 5"}),
    ):
        said = {name: value for name, value in expected.items() if name in ("seed", "reply")}
        assert ask(journal, verb, session, **said).code is None
        assert sends.last == {"session": session, **expected}


def test_a_session_that_is_lost_is_opened_with_its_episode_and_asked_again():
    journal, sends = opened({5: {A: "lost"}})
    ask(journal, "reset", seed=3)
    ask(journal, "step", reply="one")
    ask(journal, "step", reply="two")
    reply = ask(journal, "step", reply="three")
    assert reply.code is None
    assert sends.verbs[4:] == ["step", "open", "step"]
    assert sends.log[5][1] == [
        {
            "session": A,
            "env_id": LAKE,
            "options": {"max_turns": 3},
            "move": 3,
            "replay": {
                "seed": 7,
                "split": "train",
                "replies": ["one", "two"],
                "digest": "digest 4",
            },
        }
    ]
    assert sends.log[4] == sends.log[6]
    ask(journal, "step", reply="four")
    assert sends.last == {"session": A, "move": 5, "reply": "four", "after": reply.data["digest"]}


@pytest.mark.parametrize("code", ["lost", "unknown_session", "out_of_order"])
def test_a_lost_reset_needs_no_replay(code):
    journal, sends = opened({4: {A: code}})
    ask(journal, "reset", seed=3)
    ask(journal, "step", reply="one")
    assert ask(journal, "reset", seed=4).code is None
    assert sends.verbs[3:] == ["reset", "open", "reset"]
    assert sends.log[4][1][0] | {"options": None} == {
        "session": A,
        "env_id": LAKE,
        "options": None,
        "move": 2,
    }
    assert sends.last == {"session": A, "move": 3, "seed": 4}
    ask(journal, "step", reply="x")
    assert sends.last["after"] == "digest 6"


def test_only_what_is_gone_is_asked_again():
    journal, sends = opened({5: {B: "lost"}}, sessions=(A, B))
    journal.ask("reset", [{"session": A}, {"session": B}])
    journal.ask("reset", [{"session": A}, {"session": B}])
    before = len(sends.log)
    items = [{"session": A, "reply": "a"}, {"session": B, "reply": "b"}]
    sends.script = {before + 1: {B: "lost"}}
    one, other = journal.ask("step", items)
    assert (one.code, other.code) == (None, None)
    assert [[item["session"] for item in items] for _, items in sends.log[before:]] == [
        [A, B],
        [B],
        [B],
    ]


@pytest.mark.parametrize(
    "code", ["bad_config", "episode_over", "simulator", "forbidden", "too_costly"]
)
def test_other_failures_are_the_answer(code):
    journal, sends = opened({3: {A: code}})
    ask(journal, "reset")
    assert ask(journal, "step", reply="x").code == code
    assert len(sends.log) == 3


def test_what_follows_a_failure():
    """A refused move isn't counted; one that ended or broke the episode is."""
    for code, after in (
        ("bad_config", {"move": 2, "after": "digest 2"}),
        ("episode_over", {"move": 3, "after": "digest 2"}),
        ("simulator", {"move": 3, "after": ""}),
        ("forbidden", {"move": 2, "after": "digest 2"}),
    ):
        journal, sends = opened({3: {A: code}})
        ask(journal, "reset")
        ask(journal, "step", reply="x")
        ask(journal, "step", reply="y")
        assert sends.last == {"session": A, "reply": "y", **after}, code


def test_a_failed_reset_leaves_no_episode_to_replay():
    journal, sends = opened({3: {A: "episode_over"}, 4: {A: "lost"}})
    ask(journal, "reset")
    ask(journal, "reset")
    ask(journal, "step", reply="x")
    assert sends.verbs[3:] == ["step", "open", "step"]
    assert "replay" not in sends.log[4][1][0]
    journal, sends = opened({3: {A: "bad_config"}, 4: {A: "lost"}})
    ask(journal, "reset")
    ask(journal, "reset")
    ask(journal, "step", reply="x")
    assert "replay" not in sends.log[4][1][0]


def test_a_lost_opening_is_sent_again():
    sends = Sends({1: {A: "lost"}})
    reply = ask(Journal(sends), "open", env_id=LAKE)
    assert reply.code is None
    assert sends.log == [
        ("open", [{"session": A, "env_id": LAKE}]),
        ("open", [{"session": A, "env_id": LAKE, "move": 0}]),
    ]


def test_a_refused_opening_is_not_remembered():
    journal, sends = opened({1: {A: "full"}, 2: {A: "unknown_session"}})
    assert ask(journal, "reset").code == "unknown_session"
    assert sends.verbs == ["open", "reset"]
    assert sends.last == {"session": A, "move": 1}


def test_a_closed_session_is_forgotten():
    journal, sends = opened({2: {A: "lost"}, 3: {A: "lost"}})
    assert ask(journal, "close").code == "lost"
    assert ask(journal, "step", reply="x").code == "lost"
    assert sends.verbs == ["open", "close", "step"]
    assert ask(journal, "close").code is None


def test_a_reopening_that_fails_is_the_answer():
    journal, sends = opened({3: {A: "lost"}, 4: {A: "diverged"}})
    ask(journal, "reset")
    assert ask(journal, "step", reply="x").code == "diverged"
    assert sends.verbs == ["open", "reset", "step", "open"]


def test_a_move_that_is_lost_again_and_again_is_given_up(monkeypatch):
    """Six reopenings, with pauses from the third on in which a worker is replaced."""
    journal, sends = opened({number: {A: "lost"} for number in range(3, 100)})
    ask(journal, "reset")
    slept = []
    monkeypatch.setattr("vagen_adapters.service.journal.time.sleep", slept.append)
    assert ask(journal, "step", reply="x").code == "lost"
    assert sends.verbs == ["open", "reset", "step"] + ["open"] * 6
    assert slept == pytest.approx([0.4, 0.8, 1.6, 3.2])
    sends.script = {}
    assert ask(journal, "step", reply="x").code is None  # it is still remembered
    assert sends.last["move"] == 2


def test_replies_read_their_pictures():
    picture = Picture(np.zeros((2, 3, 3), np.uint8))
    data = {"picture": {"sha256": picture.sha256}}
    reply = SessionReply.read(data, {picture.sha256: picture.png})
    assert reply.picture == picture
    assert reply.code is None
    assert SessionReply.read({"picture": None}, {}).picture is None
    assert SessionReply.read({}, {}).picture is None
    with pytest.raises(KeyError):
        SessionReply.read(data, {})
    with pytest.raises(RecordError):
        SessionReply.read(data, {picture.sha256: b"no PNG"})
