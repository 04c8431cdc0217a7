"""The journal of a run, `journal.jsonl`: its starts and ends, and every request and reply when it
was made.

From it a run that was killed knows what it has spent, and an episode that was under way goes on at
its turn.

start, end    of the runner
begin         an episode, anew, or with `turns` that were replayed from the journal
request       number, episode, and the tokens and dollars that it may take at most
reply         its request, episode, turn, text and cost (`Call`); `summary` for one of the context
              policy's
failed        its request and why; `spent` where the endpoint may have charged for it
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vagen_benchmarks.agents.base import Call, Game, Ledger
from vagen_envs.core import Observation
from vagen_rewards.usage import Usage


@dataclass(frozen=True)
class KeptReply:
    """A reply of an episode that was under way.

    Attributes:
        seen: hash of the observation that it answers.
        summary: whether it is a summary of the turns before, and no turn.
    """

    seen: str
    text: str
    call: Call
    summary: bool


OWN_REQUEST = -1
"""The number of a request that an agent has made and taken from the budget without the ledger."""


class EpisodeLedger(Ledger):
    """Writes an episode's requests and replies to the journal.

    Args:
        note: appends an entry to the journal.
        key: of the episode.
        spend: called with the cost of a reply that no request of this ledger brought.
        kept: replies of an earlier process, in order.
    """

    def __init__(
        self,
        note: Callable[..., None],
        key: str,
        spend: Callable[[Call], None],
        kept: Iterable[KeptReply] = (),
    ) -> None:
        self._note = note
        self._key = key
        self._spend = spend
        self.kept = list(kept)

    def begin(self) -> None:
        turns = sum(not each.summary for each in self.kept)
        self._note("begin", key=self._key, **({"turns": turns} if turns else {}))

    def asked(self, dollars: float, tokens: int) -> int:
        number = next(_numbers)
        self._note("request", request=number, key=self._key, tokens=tokens, dollars=dollars)
        return number

    def failed(self, request: int, why: str, *, spent: bool) -> None:
        self._note("failed", request=request, why=why, spent=spent)

    def answered(
        self,
        game: Game,
        text: str,
        call: Call,
        *,
        request: int | None = None,
        summary: bool = False,
    ) -> None:
        if request is None:
            self._spend(call)
        self.last_turn = self.last_turn if summary else len(game.turns)
        self._note(
            "reply",
            request=request,
            key=self._key,
            turn=len(game.turns),
            seen=hash_of(game.now),
            text=text,
            call=call.to_json(),
            **({"summary": True} if summary else {}),
        )


_numbers = itertools.count()
"""Numbers of the process's requests."""


def hash_of(observation: Observation) -> str:
    """A hash of what an observation shows."""
    picture = observation.picture.sha256 if observation.picture else ""
    return hashlib.sha256(f"{picture} {observation.text}".encode("utf-8", "replace")).hexdigest()[
        :16
    ]


_WHOLE: dict[str, dict[str, type | tuple[type, ...]]] = {
    "begin": {"key": str},
    "request": {"request": int, "key": str, "tokens": int, "dollars": (int, float)},
    "reply": {"request": (int, type(None)), "key": str, "seen": str, "text": str, "call": dict},
    "failed": {"request": int, "spent": bool},
}
"""The fields that entries must have; a journal may be somebody else's."""


def is_entry(data: Any) -> bool:
    """Whether a line of a journal is an entry with all that its event needs."""
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        return False
    fields = _WHOLE.get(data["event"], {})
    return all(isinstance(data.get(name), kind) for name, kind in fields.items())


def kept_replies(
    journal: Iterable[Mapping[str, Any]], stored: Mapping[str, int]
) -> dict[str, list[KeptReply]]:
    """The replies of each episode that was under way when the run ended, by key.

    Args:
        journal: its entries.
        stored: how many attempts at each episode are stored.
    """
    found: dict[str, list[KeptReply]] = {}
    begun = Counter[str]()
    for entry in journal:
        if entry["event"] == "begin" and "turns" not in entry:
            begun[entry["key"]] += 1
            found[entry["key"]] = []
        elif entry["event"] == "reply" and entry["key"] in found:
            try:
                call = Call(**entry["call"])
            except (TypeError, ValueError):  # of another version: its episode is begun anew
                del found[entry["key"]]
                continue
            kept = KeptReply(entry["seen"], entry["text"], call, bool(entry.get("summary")))
            found[entry["key"]].append(kept)
    return {key: kept for key, kept in found.items() if kept and begun[key] > stored.get(key, 0)}


@dataclass
class Spent:
    """What a run has spent by its journal.

    Attributes:
        usage: of each episode's agent, by the names of `agents`.
        unanswered: requests without a reply: the process was killed, or the answer didn't come in
            time.
        dollars, tokens: that those may have taken at most.
        requests: all that were made.
        failed: those that were answered by an error.
    """

    usage: dict[str, Usage] = field(default_factory=dict)
    unanswered: int = 0
    dollars: float = 0.0
    tokens: int = 0
    requests: int = 0
    failed: int = 0
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)


def spending(journal: Iterable[Mapping[str, Any]], agents: Mapping[str, str]) -> Spent:
    """What the requests and replies of a journal add up to. `agents` has the agent of each
    episode's key.
    """
    found = Spent()
    open_: dict[int, Mapping[str, Any]] = {}

    def unanswered(request: Mapping[str, Any]) -> None:
        found.unanswered += 1
        found.dollars += float(request["dollars"])
        found.tokens += int(request["tokens"])

    for entry in journal:
        match entry["event"]:
            case "start":  # whose requests are numbered anew
                for request in open_.values():
                    unanswered(request)
                open_.clear()
            case "request":
                found.requests += 1
                open_[entry["request"]] = entry
            case "reply":
                open_.pop(entry["request"], None)
                agent = agents.get(entry["key"], "")
                found.usage.setdefault(agent, Usage()).add(entry["call"])
                found.calls.append((agent, entry["call"]))
            case "failed":
                found.failed += 1
                if entry["request"] in open_ and entry["spent"]:
                    unanswered(open_[entry["request"]])
                open_.pop(entry["request"], None)
    for request in open_.values():
        unanswered(request)
    return found
