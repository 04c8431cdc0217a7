"""What processes of one run share: a budget and the wait for an endpoint. Here they are two views of one file."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from vagen_benchmarks.clients.board import Board
from vagen_benchmarks.clients.patience import Gate
from vagen_benchmarks.clients.spending import Purse
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop

DOWN = EndpointError(Stop.UNREACHABLE, "nobody is there")


@pytest.fixture
def boards(tmp_path):
    """Of whoever stores, and of two that play."""
    path = tmp_path / "board"
    made = [Board.make(path, 2, 1), Board(path, 1), Board(path, 2)]
    yield made
    for each in made:
        each.close()


async def waits(coroutine):
    task = asyncio.create_task(coroutine)
    done, _ = await asyncio.wait([task], timeout=0.5)
    assert not done
    return task


def test_what_one_holds_the_other_may_not_spend(boards):
    one, other = (Purse(max_tokens=100, board=each) for each in boards[1:])

    async def main():
        held = await one.hold("m", 50, 10)
        waiting = await waits(other.hold("m", 50, 10))
        one.free(held)
        one.add("m", [{"prompt_tokens": 5, "completion_tokens": 5}])
        assert await waiting == (0.0, 60)
        with pytest.raises(EndpointError, match="10 so far, and the next request may take 91"):
            await asyncio.wait_for(freed(), 20)

    async def freed():
        other.free((0.0, 60))
        await asyncio.sleep(0.01)
        await other.hold("m", 90, 1)

    asyncio.run(main())


def test_one_may_spend_what_the_other_does_not_need(boards):
    one, _ = (Purse(max_dollars=1.0, max_tokens=100, board=each) for each in boards[1:])
    asyncio.run(one.hold("m", 90, 10))


def test_what_was_spent_before_counts(boards):
    store, mine, _ = boards
    purse = Purse(max_tokens=100, board=mine)
    purse.open()
    before = Purse(max_tokens=100, board=store)
    before.tokens = 80
    store.say(before._said())
    with pytest.raises(EndpointError, match="80 so far"):
        asyncio.run(purse.hold("m", 20, 1))


def test_episodes_are_begun_as_far_as_all_can_be_ended(boards):
    one, other = (Purse(max_tokens=100, board=each) for each in boards[1:])

    async def main():
        await one.admit(1, 0.0, 70)
        waiting = await waits(other.admit(2, 0.0, 70))
        one.over(1)
        await asyncio.wait_for(waiting, 20)

    asyncio.run(main())


def test_who_has_died_holds_nothing_and_probes_no_more(boards):
    store, mine, theirs = boards
    code = (
        "import asyncio, os, signal; from pathlib import Path\n"
        "from vagen_benchmarks.clients.board import Board\n"
        "from vagen_benchmarks.clients.patience import Gate\n"
        "from vagen_benchmarks.clients.spending import Purse\n"
        "from vagen_benchmarks.stop_reasons import Stop; from vagen_benchmarks.errors import EndpointError\n"
        f"board = Board(Path({str(store.path)!r}), 2)\n"
        "gate = Gate(60, 0.01); gate.share(board.gate(0))\n"
        "async def main():\n"
        "    await Purse(max_tokens=100, board=board).hold('m', 90, 0)\n"
        "    gate.bad(1, EndpointError(Stop.UNREACHABLE, 'x')); await gate.enter()\n"
        "    with board.locked(): os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    purse, gate = Purse(max_tokens=100, board=mine), Gate(60, 0.01)
    gate.share(mine.gate(0))

    async def main():
        held, entered = await waits(purse.hold("m", 90, 0)), await waits(gate.enter())
        store.bury(theirs.row)
        await asyncio.wait_for(asyncio.gather(held, entered), 20)

    asyncio.run(main())


def test_an_outage_that_one_meets_holds_the_other_and_one_probes(boards):
    told = []
    one, other = (Gate(60, 0.01, told.append) for _ in range(2))
    for gate, board in zip((one, other), boards[1:], strict=True):
        gate.share(board.gate(0))

    async def main():
        assert one.bad(object(), DOWN)
        assert other.is_down
        entered = await one.enter()  # as the probe
        waiting = await waits(other.enter())
        one.good(entered)
        await asyncio.wait_for(waiting, 20)

    asyncio.run(main())
    assert [each.partition(",")[0].partition(" after")[0] for each in told] == [
        "waiting for the endpoint",
        "the endpoint answers again",
    ]


def test_an_answer_to_a_request_made_before_an_outage_does_not_end_it():
    """Else those in flight when it begins, answered late, let all others through again."""
    gate = Gate(60, 0.01)

    async def main():
        before = await gate.enter()
        assert gate.bad(object(), DOWN)
        gate.good(before)
        assert gate.is_down
        gate.good(await gate.enter())
        assert not gate.is_down

    asyncio.run(main())


def test_patience_is_spent_by_all_with_the_words_of_who_met_it(boards):
    one, other = (Gate(0.05, 0.01) for _ in range(2))
    for gate, board in zip((one, other), boards[1:], strict=True):
        gate.share(board.gate(0))

    async def main():
        one.bad(object(), DOWN)
        await asyncio.sleep(0.1)
        with pytest.raises(EndpointError, match="nobody is there") as found:
            await other.enter()
        assert found.value.hopeless
        assert found.value.kind is Stop.UNREACHABLE

    asyncio.run(main())
