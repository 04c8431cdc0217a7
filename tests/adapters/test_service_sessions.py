"""The sessions of a server in one event loop, with a worker in this process and a clock that the test moves."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra serve")

from vagen_adapters.errors import ServiceError
from vagen_adapters.service import sessions as service_sessions
from vagen_adapters.service.config import ServiceConfig
from vagen_adapters.service.host import EnvHost, Failure, HostAnswer
from vagen_adapters.service.metrics import Metrics
from vagen_adapters.service.pool import Pool
from vagen_adapters.service.sessions import Sessions
from vagen_adapters.service.tenants import Tenant
from vagen_envs.workers import WorkerDied

LAKE = "vagen/FrozenLake-v0"
IDLE = service_sessions.IDLE


class Loop(asyncio.SelectorEventLoop):
    """A loop whose clock can be moved."""

    ahead = 0.0

    def time(self):
        return super().time() + self.ahead


class Worker:
    """A worker in this process. While it holds, its calls wait."""

    where = "the worker of the test"

    def __init__(self):
        self.host, self.calls, self.waiting, self.holds = EnvHost(), [], [], False

    async def start(self):
        pass

    def run(self, call):
        pending = asyncio.get_running_loop().create_future()
        self.calls.append(call)
        self.waiting.append((call, pending))
        if not self.holds:
            self.go_on()
        return pending

    async def has_a_call(self):
        while not self.waiting:
            await asyncio.sleep(0)

    def go_on(self):
        self.holds = False
        for call, pending in self.waiting:
            pending.set_result(self.host.run(call))
        self.waiting.clear()

    def die(self):
        for _, pending in self.waiting:
            pending.set_exception(WorkerDied("the worker of the test died"))
        self.waiting.clear()

    def close(self):
        pass


class Server:
    """Sessions with one worker, for one or several tenants."""

    def __init__(self, share=100, **config):
        self.workers = []
        self.pool = Pool(self._make_worker, size=1)
        self.metrics = Metrics()
        self.tenant = Tenant()
        self._share, self._config = share, ServiceConfig(**{"env_ids": [LAKE], **config})

    def _make_worker(self, costly):
        self.workers.append(Worker())
        return self.workers[-1]

    async def __aenter__(self):
        await self.pool.start()
        while not self.pool.workers:
            await asyncio.sleep(0)
        self.sessions = Sessions(self.pool, self._config, self._share, self.metrics)
        return self

    async def __aexit__(self, *_):
        await self.pool.close()

    @property
    def worker(self):
        return self.workers[-1]

    async def ask(self, verb, *items, tenant=None):
        results = await self.sessions.handle(verb, list(items), tenant or self.tenant)
        await asyncio.sleep(0)  # as a client's next request, which comes over the network
        return results

    async def one(self, verb, name, tenant=None, **item):
        """The answer of one item as data, or the failure."""
        (result,) = await self.ask(verb, {"session": session(name), **item}, tenant=tenant)
        return result if isinstance(result, Failure) else json.loads(result.body)

    async def open(self, name, tenant=None, **item):
        return await self.one("open", name, tenant, **{"env_id": LAKE, **item})

    def metric(self, name, **labels):
        said = ",".join(f'{key}="{value}"' for key, value in labels.items())
        full = f"vagen_{name}{{{said}}}" if labels else f"vagen_{name}"
        lines = self.metrics.text().decode().splitlines()
        found = [line.rpartition(" ")[2] for line in lines if line.rpartition(" ")[0] == full]
        return float(found[0]) if found else 0.0


def session(name):
    return f"session-{name:-<16}"


def played(scenario):
    """Run a scenario in a loop whose clock can be moved: `ahead(seconds)`."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        loop = runner.get_loop()

        def ahead(seconds):
            loop.ahead += seconds

        return runner.run(scenario(ahead))


def code(result):
    return result.code if isinstance(result, Failure) else None


def test_the_session_that_was_idle_for_longest_makes_room():
    async def scenario(ahead):
        async with Server(max_sessions=3) as server:
            for name in "abc":
                assert code(await server.open(name)) is None
                ahead(1)
            await server.one("reset", "a", move=1, seed=1)  # now b has been idle for longest
            ahead(IDLE + 1)
            await server.one("reset", "c", move=1, seed=1)
            assert code(await server.open("d")) is None
            assert server.metric("ended_sessions_total", why="evicted") == 1
            assert server.metric("sessions") == 3
            assert code(await server.one("reset", "b", move=1)) == "unknown_session"
            assert code(await server.one("step", "a", move=2, reply="x")) is None
            assert code(await server.one("step", "c", move=2, reply="x")) is None

    played(scenario)


def test_only_idle_sessions_make_room():
    async def scenario(ahead):
        async with Server(max_sessions=1) as server:
            await server.open("a")
            ahead(IDLE - 1)
            refused = await server.open("b")
            assert code(refused) == "full"
            assert "1 sessions" in refused.message
            ahead(2)
            assert code(await server.open("b")) is None
            assert server.metric("failures_total", code="full") == 1

    played(scenario)


def test_a_session_that_is_playing_is_not_idle():
    async def scenario(ahead):
        async with Server(max_sessions=1) as server:
            await server.open("a")
            server.worker.holds = True
            move = asyncio.ensure_future(server.one("reset", "a", move=1, seed=1))
            await asyncio.sleep(0)
            ahead(IDLE + 1)
            assert code(await server.open("b")) == "full"
            server.worker.go_on()
            assert code(await move) is None

    played(scenario)


def test_a_tenant_makes_room_among_its_own():
    async def scenario(ahead):
        async with Server(share=2, max_sessions=10) as server:
            other = Tenant()
            await server.open("theirs", other)
            ahead(1)
            await server.open("a")
            await server.open("b")
            assert (server.tenant.sessions, other.sessions) == (2, 1)
            refused = await server.open("c")
            assert code(refused) == "full"
            assert "2 sessions" in refused.message
            ahead(IDLE + 1)
            assert code(await server.open("c")) is None
            assert code(await server.one("reset", "theirs", other, move=1)) is None
            assert code(await server.one("reset", "a", move=1)) == "unknown_session"
            await server.one("close", "b")
            assert server.tenant.sessions == 1

    played(scenario)


def test_a_lease_ends_without_requests():
    async def scenario(ahead):
        async with Server(lease=50.0) as server:
            expiring = asyncio.create_task(server.sessions.expire())
            await server.open("a")
            await server.open("b")
            ahead(30)
            await server.one("reset", "b", move=1)
            ahead(30)
            for _ in range(20):
                await asyncio.sleep(0)
            assert server.metric("ended_sessions_total", why="expired") == 1
            assert code(await server.one("reset", "a", move=1)) == "unknown_session"
            assert code(await server.one("step", "b", move=2, reply="x")) is None
            server.worker.holds = True
            move = asyncio.ensure_future(server.one("step", "b", move=3, reply="x"))
            await asyncio.sleep(0)
            ahead(100)
            for _ in range(20):
                await asyncio.sleep(0)
            server.worker.go_on()
            assert code(await move) is None  # one that is being played doesn't expire
            expiring.cancel()

    played(scenario)


def test_sessions_are_reached_by_their_own_tenant_alone():
    async def scenario(ahead):
        async with Server() as server:
            other = Tenant()
            await server.open("a")
            for verb, item in (
                ("close", {}),
                ("reset", {"move": 1}),
                ("step", {"move": 1, "reply": "x"}),
            ):
                assert code(await server.one(verb, "a", other, **item)) == "forbidden", verb
            assert code(await server.open("a", other)) == "forbidden"
            assert code(await server.one("reset", "a", move=1)) is None

    played(scenario)


def test_a_move_that_is_sent_again_is_not_played_again():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            first = await server.one("reset", "a", move=1, seed=3)
            assert await server.one("reset", "a", move=1, seed=3) == first
            step = {"move": 2, "reply": "<answer>Down</answer>", "after": first["digest"]}
            second = await server.one("step", "a", **step)
            assert await server.one("step", "a", **step) == second
            assert second["turn"]["index"] == 0
            assert server.metric("repeated_moves_total") == 2
            assert server.metric("moves_total", env_id=LAKE, verb="step") == 1
            assert len(server.worker.calls) == 3
            for wrong in ({"reply": "another"}, {"after": None}):
                assert code(await server.one("step", "a", **step | wrong)) == "out_of_order"
            assert code(await server.one("reset", "a", move=2)) == "out_of_order"

    played(scenario)


def test_a_move_sent_again_while_it_is_played_waits_for_the_same_answer():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            server.worker.holds = True
            moves = [
                asyncio.ensure_future(server.one("reset", "a", move=1, seed=1)) for _ in range(2)
            ]
            await asyncio.sleep(0)
            busy = [
                await server.one("step", "a", move=2, reply="x"),
                await server.one("close", "a"),
            ]
            assert [code(each) for each in busy] == ["out_of_order"] * 2
            assert all("move 1" in each.message for each in busy)
            server.worker.go_on()
            one, other = await asyncio.gather(*moves)
            assert one == other
            assert len(server.worker.calls) == 2

    played(scenario)


def test_moves_come_in_order():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            assert code(await server.one("reset", "a", move=2)) == "out_of_order"
            first = await server.one("reset", "a", move=1, seed=1)
            assert code(await server.one("step", "a", move=3, reply="x")) == "out_of_order"
            wrong = await server.one("step", "a", move=2, reply="x", after="another digest")
            assert code(wrong) == "out_of_order"
            step = {"move": 2, "reply": "x", "after": first["digest"]}
            assert code(await server.one("step", "a", **step)) is None

    played(scenario)


def test_a_refused_reset_uses_up_no_number():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            refused = await server.one("reset", "a", move=1, split="tset")
            assert code(refused) == "bad_config"
            assert code(await server.one("reset", "a", move=1, split="test")) is None

    played(scenario)


def test_a_failed_move_is_answered_again_and_uses_up_its_number():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            over = await server.one("step", "a", move=1, reply="x")
            assert code(over) == "episode_over"
            assert await server.one("step", "a", move=1, reply="x") == over
            assert code(await server.one("reset", "a", move=2)) is None

    played(scenario)


def test_long_answers_are_not_kept(monkeypatch):
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            await server.open("b")
            first = await server.ask("reset", {"session": session("a"), "move": 1, "seed": 1})
            size = len(first[0].body) + len(first[0].picture[1])
            monkeypatch.setattr(service_sessions, "KEPT", size + 1)
            await server.one("reset", "b", move=1, seed=1)
            assert code(await server.one("reset", "b", move=1, seed=1)) is None
            monkeypatch.setattr(service_sessions, "KEPT", size)
            await server.one("reset", "b", move=2, seed=1)
            lost = await server.one("reset", "b", move=2, seed=1)
            assert code(lost) == "lost"
            assert "open the session again" in lost.message
            assert code(await server.one("step", "b", move=3, reply="x")) is None

    played(scenario)


def test_sessions_of_a_dead_worker_are_lost_and_their_moves_end():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("idle")
            await server.open("busy")
            server.worker.holds = True
            move = asyncio.ensure_future(server.one("reset", "busy", move=1))
            await asyncio.sleep(0)
            server.worker.die()
            assert code(await move) == "lost"
            while server.pool.replaced == 0:
                await asyncio.sleep(0)
            assert server.metric("replaced_workers") == 1
            assert server.metric("sessions") == 0
            assert server.metric("ended_sessions_total", why="lost") == 2
            assert server.tenant.sessions == 0

    played(scenario)


def test_an_episode_that_began_elsewhere_goes_on_here():
    async def scenario(ahead):
        async with Server() as one, Server() as other:
            await one.open("a")
            level = (await one.one("reset", "a", move=1, seed=5))["level"]
            first = await one.one("step", "a", move=2, reply="one")
            second = await one.one("step", "a", move=3, reply="two")
            replay = {
                "seed": level["seed"],
                "split": level["split"],
                "replies": ["one"],
                "digest": first["digest"],
            }
            opened = await other.open("a", move=2, replay=replay)
            assert opened["env_id"] == LAKE
            assert other.metric("replays_total") == 1
            step = {"move": 3, "reply": "two", "after": first["digest"]}
            assert await other.one("step", "a", **step) == second

    played(scenario)


@pytest.mark.parametrize(
    "change",
    [{"replies": ["another"]}, {"seed": 6}, {"digest": "another"}, {"replies": ["one", "x", "y", "z"]}],
    ids=str,
)  # fmt: skip
def test_a_replay_that_gives_other_answers_is_refused(change):
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a", options={"max_turns": 2})
            level = (await server.one("reset", "a", move=1, seed=5))["level"]
            first = await server.one("step", "a", move=2, reply="one")
            replay = {
                "seed": level["seed"],
                "split": level["split"],
                "replies": ["one"],
                "digest": first["digest"],
                **change,
            }
            refused = await server.open("b", options={"max_turns": 2}, move=2, replay=replay)
            assert code(refused) == "diverged"
            assert server.metric("sessions") == 1
            assert code(await server.one("step", "b", move=3, reply="x")) == "unknown_session"

    played(scenario)


def test_opening_again_begins_anew():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            await server.one("reset", "a", move=1)
            assert code(await server.open("a")) is None
            assert server.metric("ended_sessions_total", why="reopened") == 1
            assert server.tenant.sessions == 1
            assert code(await server.one("step", "a", move=2, reply="x")) == "out_of_order"
            assert code(await server.one("reset", "a", move=1)) is None

    played(scenario)


def test_opening_again_waits_for_the_move_that_is_played():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            server.worker.holds = True
            move = asyncio.ensure_future(server.one("reset", "a", move=1))
            await asyncio.sleep(0)
            opening = asyncio.ensure_future(server.open("a"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not opening.done()
            server.worker.go_on()
            assert code(await move) is None
            assert code(await opening) is None

    played(scenario)


def test_unknown_things_are_named():
    async def scenario(ahead):
        async with Server() as server:
            unknown = await server.open("a", env_id="vagen/FrozenLake-v1")
            assert code(unknown) == "bad_config"
            assert "Did you mean 'vagen/FrozenLake-v0'" in unknown.message
            wrong = await server.open("a", options={"max_turnz": 3})
            assert code(wrong) == "bad_config"
            assert server.tenant.sessions == 0
            assert server.metric("ended_sessions_total", why="bad_config") == 1
            assert await server.one("close", "never") == {}
            with pytest.raises(ServiceError, match="unknown verb"):
                await server.ask("jump", {"session": session("a")})

    played(scenario)


def test_items_of_a_request_are_played_at_once_and_answered_in_order():
    async def scenario(ahead):
        async with Server() as server:
            items = [{"session": session(name), "env_id": LAKE} for name in "abc"]
            assert len(await server.ask("open", *items)) == 3
            moves = [
                {"session": session(name), "move": 1, "seed": i} for i, name in enumerate("abc")
            ]
            answers = await server.ask("reset", *moves)
            assert all(isinstance(answer, HostAnswer) for answer in answers)
            assert [json.loads(answer.body)["level"]["seed"] for answer in answers] == [0, 1, 2]
            await server.ask("close", *[{"session": session(name)} for name in "ab"])
            assert server.metric("ended_sessions_total", why="closed") == 2
            assert server.metric("workers") == 1
            assert [call.verb for call in server.worker.calls[-2:]] == ["close", "close"]

    played(scenario)


def test_a_request_that_is_given_up_ends_its_session():
    """As at the server's end. What was asked for is carried out, but nobody has the answer."""

    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            server.worker.holds = True
            move = asyncio.ensure_future(server.one("reset", "a", move=1))
            await asyncio.sleep(0)
            move.cancel()
            with pytest.raises(asyncio.CancelledError):
                await move
            server.worker.go_on()
            await asyncio.sleep(0)
            assert server.metric("ended_sessions_total", why="lost") == 1
            assert (server.metric("sessions"), server.tenant.sessions) == (0, 0)

    played(scenario)


@pytest.mark.parametrize(
    ("env_id", "costly"),
    [(LAKE, False), ("vagen/SVGReconstruction-v0", True), ("nobody/Env-v0", False)],
)
def test_environments_with_slow_turns_are_costly(env_id, costly):
    assert service_sessions.is_costly(env_id) is costly


def test_costly_sessions_have_workers_of_their_own():
    """They are started with the first one, whether it can be made here or not."""

    async def scenario(ahead):
        svg = "vagen/SVGReconstruction-v0"
        async with Server(env_ids=[LAKE, svg]) as server:
            await server.open("quick")
            assert server.metric("workers") == 1
            await server.open("slow", env_id=svg)
            assert server.metric("workers") == 2

    played(scenario)


def test_a_session_that_is_being_opened_takes_no_moves_and_opens_once():
    async def scenario(ahead):
        async with Server(max_sessions=1) as server:
            server.worker.holds = True
            opening = [asyncio.ensure_future(server.open("a")) for _ in range(2)]
            await server.worker.has_a_call()
            early = await server.one("reset", "a", move=1)
            assert (code(early), "move 0" in early.message) == ("out_of_order", True)
            ahead(IDLE + 1)
            server.worker.go_on()
            assert [code(each) for each in await asyncio.gather(*opening)] == [None, None]
            assert server.metric("ended_sessions_total", why="reopened") == 1
            assert code(await server.open("b")) == "full"  # idle since it was opened
            assert code(await server.one("reset", "a", move=1)) is None

    played(scenario)


def test_what_a_server_offers_reaches_its_workers():
    async def scenario(ahead):
        offers = {"prompt_pack": {"short": "packs/short"}}
        async with Server(offers=offers) as server:
            await server.open("a", options={"max_turns": 7})
            (call,) = server.worker.calls
            assert (call.verb, call.session) == ("open", session("a"))
            assert call.arguments == {
                "env_id": LAKE,
                "options": {"max_turns": 7},
                "offers": offers,
            }

    played(scenario)


def test_moves_are_timed():
    async def scenario(ahead):
        async with Server() as server:
            await server.open("a")
            server.worker.holds = True
            move = asyncio.ensure_future(server.one("reset", "a", move=1))
            await asyncio.sleep(0)
            ahead(1_000)
            server.worker.go_on()
            await move
            assert server.metric("move_seconds_count") == 1
            assert 1_000 <= server.metric("move_seconds_sum") < 2_000

    played(scenario)


def replay_of(level, replies, digest):
    return {
        "seed": level["seed"],
        "split": level["split"],
        "replies": list(replies),
        "digest": digest,
    }


def test_a_replay_is_of_its_split_and_expects_the_next_move():
    async def scenario(ahead):
        async with Server() as one, Server() as other:
            await one.open("a")
            level = (await one.one("reset", "a", move=1, seed=5, split="test"))["level"]
            first = await one.one("step", "a", move=2, reply="\ud800")
            replay = replay_of(level, ["\ud800"], first["digest"])
            assert code(await other.open("a", move=2, replay=replay)) is None
            again = await other.one("step", "a", move=2, reply="\ud800")
            assert code(again) == "out_of_order"
            assert "expects 3" in again.message
            step = {"move": 3, "reply": "x", "after": first["digest"]}
            assert code(await other.one("step", "a", **step)) is None

    played(scenario)


def test_a_replay_whose_worker_dies_is_lost():
    async def scenario(ahead):
        async with Server() as server:
            server.worker.holds = True
            replay = {"seed": 1, "split": "train", "replies": ["x"], "digest": "any"}
            opening = asyncio.ensure_future(server.open("a", move=2, replay=replay))
            await server.worker.has_a_call()
            server.worker.go_on()
            server.worker.holds = True
            await server.worker.has_a_call()
            assert server.worker.waiting[0][0].verb == "reset"
            server.worker.die()
            assert code(await opening) == "lost"
            assert (server.metric("sessions"), server.tenant.sessions) == (0, 0)

    played(scenario)


def test_failures_say_why_and_what_to_do():
    async def scenario(ahead):
        async with Server() as server:
            other = Tenant()

            async def why(verb, name, tenant=None, **item):
                return (await server.one(verb, name, tenant, **item)).message

            assert "open it" in await why("reset", "a", move=1)
            await server.open("a")
            assert "open one of your own" in await why("reset", "a", other, move=1)
            theirs = await server.open("a", other)
            assert "choose another id" in theirs.message
            first = await server.one("reset", "a", move=1, seed=1)
            assert "a repeat must be the same" in await why("reset", "a", move=1, seed=2)
            assert "expects 2" in await why("reset", "a", move=3)
            assert "another answer" in await why("step", "a", move=2, reply="x", after="y")
            level = first["level"]
            for replies, said in (([], "0 turns played again gave other"), (["x"], "1 turns")):
                replay = replay_of(level, replies, "another")
                assert said in (await server.open("b", move=2, replay=replay)).message
            replay = replay_of({**level, "split": "tset"}, ["x"], "any")
            assert (
                "split='tset' is not valid"
                in (await server.open("b", move=2, replay=replay)).message
            )
            unknown = await server.open("c", env_id="x" * 90)
            assert f"'{'x' * 80}'" in unknown.message

    played(scenario)
