"""A run on several cores: processes that play a share of its episodes each, and one, this, that stores what they send.

The folder has one writer, so that kills, budgets and the chain of lines are as of one process. Episodes are shared out
in turn. Agents that call no model are stored in the protocol's order, so that the run is the same, byte for byte, as
that of one process; others as they end.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from vagen_benchmarks.clients.board import Board, Spent
from vagen_benchmarks.clients.spending import Purse
from vagen_benchmarks.errors import BenchError
from vagen_benchmarks.runs.encoding import Encoder, Line
from vagen_benchmarks.runs.episode import Episode
from vagen_benchmarks.runs.job import Job, made_again
from vagen_benchmarks.runs.protocol import Protocol
from vagen_benchmarks.runs.run_folder import RunFolder, RunWriter, read_episode
from vagen_benchmarks.runs.runner import Outcome, Policy, begin, finish, run
from vagen_benchmarks.stop_reasons import Stop
from vagen_envs.pictures import Picture
from vagen_envs.workers import cause_of_end, started

PATIENCE = 10.0
"""Seconds that an interrupted process has for sending what it has."""


@dataclass(frozen=True)
class Share:
    """What a process is told: the run, and its part of it."""

    path: Path
    how: Mapping[str, Any]
    keys: frozenset[str]
    policy: Policy
    board: Path
    row: int


Sent = tuple[Line, list[tuple[str, bytes]]]
"""An episode that was played, and pictures by name and PNG."""

# -- the process that stores -------------------------------------------------------------------------


@dataclass
class _Player:
    """A process that plays, as seen from the one that stores."""

    process: subprocess.Popen[bytes]
    connection: Connection
    say: Callable[[str], None]
    gone: Callable[[], None]
    """Called when it has ended."""
    said: dict[str, Any] | None = None
    """What it said in the end."""

    def receive(self) -> Sent | None:
        """Its next message, waited for: an episode is returned, all else is heard here."""
        try:
            kind, *data = pickle.loads(self.connection.recv_bytes())  # noqa: S301  (of our own process)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self.said = {"reason": cause_of_end(self.process, error)}
            self.gone()
            return None
        if kind == "episode":
            line, pictures = data
            return line, pictures
        if kind == "say":
            self.say(data[0])
        else:
            self.said = data[0]
            self.gone()
        return None

    def next(self) -> Sent | None:
        """Its next episode, waited for; `None` once there are no more."""
        while self.said is None:
            if (sent := self.receive()) is not None:
                return sent
        return None


def run_job(
    folder: RunWriter,
    job: Job,
    workers: int,
    told: Callable[[Episode], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Play a job's episodes, in this process or by so many of their own; `told` and `say` as of `runner.run`."""
    workers = min(workers, max((len(folder.left(agent.name)) for agent in job.agents), default=0))
    if workers > 1:
        return run_on_cores(folder, job, workers, told, say)
    return run(
        folder, job.agents, policy=job.policy, skipped=job.skipped, scoring=job.scoring, told=told, say=say,
    )  # fmt: skip


def run_on_cores(
    folder: RunWriter,
    job: Job,
    count: int,
    told: Callable[[Episode], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """As `vagen_benchmarks.runs.runner.run`, by so many processes. Each makes the agents anew, by their names.

    Concurrency and `give_up_after` are divided among them; budgets, and waiting for an outage, are of all together.
    """
    outcome = Outcome()
    purse = begin(folder, job.agents, job.policy, job.skipped)
    home = tempfile.TemporaryDirectory()
    board = Board.make(Path(home.name) / "board", count, len(job.agents))
    board.say(Spent(purse.dollars, purse.tokens))
    shares = _shares(folder, job, count, board.path)
    players = [_begun(share, say, board) for share in shares]
    try:
        for agent in job.agents:
            keys = [key for key, *_ in folder.left(agent.name)]
            for line, pictures in _in_turn(players, keys, shares, ordered=not agent.calls_a_model):
                _store(folder, line, pictures, purse, outcome, told)
        for player in players:
            while (left := player.next()) is not None:  # none is
                _store(folder, *left, purse, outcome, told)
    except KeyboardInterrupt:
        outcome.reason = "interrupted"
        _interrupt(players, lambda line, pictures: _store(folder, line, pictures, purse, outcome, told))
        raise
    finally:
        for player in players:
            player.connection.close()
            player.process.kill()
            player.process.wait()
        board.close()
        home.cleanup()
        said = [player.said or {} for player in players]
        outcome.reason = outcome.reason or next((each["reason"] for each in said if each.get("reason")), "")
        unstored = [each["unstored"] for each in said if "unstored" in each]
        lost = {name: sum(each[name] for each in unstored) for name in ("dollars", "tokens")}
        finish(folder, job.agents, outcome, purse, lost)
    if broke := next((each["error"] for each in said if each.get("error")), None):
        raise BenchError(broke)
    return outcome


def _shares(folder: RunWriter, job: Job, count: int, board: Path) -> list[Share]:
    mine: list[set[str]] = [set() for _ in range(count)]
    for agent in job.agents:
        for i, (key, *_) in enumerate(folder.left(agent.name)):
            mine[i % count].add(key)
    policy = job.policy
    each = replace(policy, give_up_after=-(-policy.give_up_after // count))
    how = {name: value for name, value in job.how.items() if value is not None}
    parts = [policy.concurrency // count + (i < policy.concurrency % count) for i in range(count)]
    return [
        Share(folder.path.resolve(), how, frozenset(keys), replace(each, concurrency=max(1, part)), board, row)
        for row, (keys, part) in enumerate(zip(mine, parts, strict=True), 1)
    ]


def _begun(share: Share, say: Callable[[str], None], board: Board) -> _Player:
    process, ours = started("vagen_benchmarks.runs.cores")
    player = _Player(process, Connection(ours.detach()), say, lambda: board.bury(share.row))
    with contextlib.suppress(OSError):  # it is gone already, which the first `next` finds out
        player.connection.send_bytes(pickle.dumps(share))
    return player


def _in_turn(
    players: Sequence[_Player], keys: Sequence[str], shares: Sequence[Share], *, ordered: bool
) -> Iterator[Sent]:
    """An agent's episodes: in order, or as they come."""
    if ordered:
        for i in range(len(keys)):
            if (sent := players[i % len(players)].next()) is not None:
                yield sent
        return
    left = [len(share.keys.intersection(keys)) for share in shares]
    while waited := {each.connection: i for i, each in enumerate(players) if left[i] and each.said is None}:
        for ready in wait(list(waited)):
            i = waited[ready]  # type: ignore[index]
            if (sent := players[i].receive()) is not None:
                left[i] -= 1
                yield sent


def _store(
    folder: RunWriter,
    line: Line,
    pictures: list[tuple[str, bytes]],
    purse: Purse,
    outcome: Outcome,
    told: Callable[[Episode], None],
) -> None:
    folder.store([line], pictures)
    episode = read_episode(line[2])
    purse.add(episode.agent, episode.calls)
    if episode.ended.kind is not Stop.SPENT:  # which is left for when there is more to spend
        outcome.count(episode.ended)
    told(episode)


def _interrupt(players: Sequence[_Player], store: Callable[[Line, list[tuple[str, bytes]]], None]) -> None:
    """Stop the processes, and store what they had."""
    for player in players:
        with contextlib.suppress(OSError):
            player.connection.send_bytes(pickle.dumps("stop"))
    for player in players:
        while player.said is None and player.connection.poll(PATIENCE):
            if (sent := player.next()) is not None:
                store(*sent)


# -- a process that plays ----------------------------------------------------------------------------


class _Sender(RunWriter):
    """Takes what is played as a run folder does, and sends it to the process that has the folder."""

    def __init__(self, connection: Connection, protocol: Protocol, keys: Collection[str]) -> None:
        self._connection, self.protocol = connection, protocol
        every = {key for agent in protocol.agents for key, *_ in protocol.keys(str(agent["name"]))}
        self.finished = every - {*keys}
        self.scored = 0
        self._encoder = Encoder()
        self._sent: set[str] = set()
        self._lock = threading.Lock()
        self.said: dict[str, Any] = {}

    def add_all(self, episodes: Sequence[Episode], pictures: Iterable[Picture]) -> None:
        known = {each.sha256: each for each in pictures}
        for episode in episodes:
            shown = [turn[side]["picture"] for turn in episode.turns for side in ("observed", "result")]
            names = dict.fromkeys(each["sha256"] for each in shown if each)
            new = [(name, known[name].png) for name in names if name not in self._sent]
            self._sent.update(names)
            self.send("episode", self._encoder.line(episode), new)
            if episode.failure is None:
                self.finished.add(episode.key)

    def send(self, *message: Any) -> None:
        """Send it, from any thread."""
        data = pickle.dumps(message)
        with self._lock:
            self._connection.send_bytes(data)

    def note(self, event: str, **facts: Any) -> None:
        if event == "end":
            self.said = {"unstored": facts["unstored"], "reason": facts["reason"]}

    def all_episodes(self) -> Iterator[Episode]:
        return iter(())

    def journal(self) -> list[dict[str, Any]]:
        return []


class _Stop:
    """Ctrl-C is for the process that stores, which then says so."""

    told = False

    def heard(self, *_: object) -> None:
        if self.told:
            self.told = False
            raise KeyboardInterrupt

    def listen(self, connection: Connection) -> None:
        """Until the process that stores says stop, or is gone."""
        while True:
            try:
                connection.recv_bytes()
            except (EOFError, OSError):
                os._exit(1)
            self.told = True
            os.kill(os.getpid(), signal.SIGINT)


def play_share(connection: Connection) -> None:
    """A process's whole life."""
    stop = _Stop()
    signal.signal(signal.SIGINT, stop.heard)
    share: Share = pickle.loads(connection.recv_bytes())  # noqa: S301  (of the process that started this one)
    threading.Thread(target=stop.listen, args=(connection,), daemon=True).start()
    folder = RunFolder(share.path)
    sender = _Sender(connection, folder.protocol, share.keys)
    error = ""
    try:
        job = made_again(folder, share.how)
        say = lambda words: sender.send("say", words)  # noqa: E731
        board = Board(share.board, share.row)
        run(sender, job.agents, policy=share.policy, scoring=job.scoring, say=say, board=board)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        os._exit(1)
    except BenchError as broke:
        error = f"{type(broke).__name__}: {broke}"
    sender.send("over", {**sender.said, "error": error})


if __name__ == "__main__":
    play_share(Connection(int(sys.argv[1])))
