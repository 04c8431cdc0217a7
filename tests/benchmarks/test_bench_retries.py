"""Retries against one endpoint, in virtual time: attempts, outages, rate limits, and when it is given up."""

from __future__ import annotations

import asyncio
import itertools
import re
import time

import pytest
import virtual_time

from vagen_benchmarks.clients.retries import Pace, Retries
from vagen_benchmarks.errors import EndpointError
from vagen_benchmarks.stop_reasons import Stop


class Endpoint:
    """Answers as its script says: `None` for an answer, or an error's arguments. The last entry repeats."""

    def __init__(self, *script, seconds=0.0):
        self.script, self.seconds, self.asked = list(script), seconds, []

    async def ask(self):
        self.asked.append(time.monotonic())
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        await asyncio.sleep(self.seconds)
        if said is not None:
            raise error(**said)
        return "answer"

    @property
    def gaps(self):
        return [later - one for one, later in zip(self.asked, self.asked[1:], strict=False)]


def error(kind, retry=True, **more):
    return EndpointError(kind, "said", retry=retry, **more)


FAULT = {"kind": Stop.SERVER_ERROR, "status": 500}
DOWN = {"kind": Stop.SERVER_ERROR, "status": 503}
UNREACHABLE = {"kind": Stop.UNREACHABLE}
LIMITED = {"kind": Stop.RATE_LIMITED, "status": 429}
BAD = {"kind": Stop.REJECTED, "status": 400, "retry": False}


@pytest.fixture
def play(monkeypatch):
    return lambda coroutine: virtual_time.run(coroutine, monkeypatch)


async def failure(retries, endpoint):
    with pytest.raises(EndpointError) as caught:
        await retries.call(endpoint.ask)
    return caught.value


def test_an_answer_takes_one_request(play):
    endpoint, retries = Endpoint(None), Retries()
    assert play(retries.call(endpoint.ask)) == ("answer", 1)
    assert len(endpoint.asked) == 1
    assert retries.has_answered


def test_another_kind_of_error_is_raised_as_it_is(play):
    async def ask():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(Retries().call(ask))


def test_faults_are_tried_again_with_a_growing_pause_until_attempts_are_spent(play):
    """The pause doubles from `first_wait` to 20 s, less up to a half by chance."""
    endpoint, retries = Endpoint(None, FAULT), Retries(attempts=8, first_wait=1.0)

    async def scenario():
        await retries.call(endpoint.ask)
        return await failure(retries, endpoint)

    assert not play(scenario()).hopeless
    pauses = endpoint.gaps[1:]
    assert len(pauses) == 7
    for number, pause in enumerate(pauses):
        backoff = min(2.0**number, 20.0)
        assert 0.5 * backoff <= pause <= backoff


def test_pauses_are_jittered(play):
    pauses = set()
    for _ in range(3):
        endpoint, retries = Endpoint(FAULT, None), Retries()
        play(retries.call(endpoint.ask))
        pauses.add(endpoint.gaps[0])
    assert len(pauses) == 3


@pytest.mark.parametrize(("after", "waited"), [(7.0, 7.0), (0.0, 0.0), (3_600.0, 60.0)])
def test_retry_after_is_obeyed_to_a_minute(play, after, waited):
    endpoint = Endpoint({**FAULT, "after": after}, None)
    assert play(Retries().call(endpoint.ask)) == ("answer", 2)
    assert endpoint.gaps == [pytest.approx(waited)]


@pytest.mark.parametrize("after", [3_601.0, 86_400.0, 2.5e11])
def test_a_wait_beyond_patience_is_an_error_at_once(play, after):
    endpoint = Endpoint({**FAULT, "after": after}, None)
    caught = play(failure(Retries(), endpoint))
    assert (len(endpoint.asked), caught.hopeless) == (1, True)
    assert "asks to wait" in str(caught)


def test_what_cannot_pass_is_not_tried_again(play):
    endpoint = Endpoint(BAD)
    caught = play(failure(Retries(), endpoint))
    assert len(endpoint.asked) == 1
    assert (caught.kind, caught.hopeless) == (Stop.REJECTED, False)


def test_a_spent_budget_is_neither_fault_nor_answer(play):
    endpoint, retries = Endpoint({"kind": Stop.SPENT, "retry": False}), Retries()
    for _ in range(12):
        assert not play(failure(retries, endpoint)).hopeless
    assert retries.breaker.down_since is None


def test_a_refusal_that_may_pass_gets_three_requests(play):
    endpoint, retries = Endpoint(None, {"kind": Stop.PROXY, "status": 413}), Retries()

    async def scenario():
        await retries.call(endpoint.ask)
        await failure(retries, endpoint)

    play(scenario())
    assert len(endpoint.asked) == 1 + 3
    assert retries.breaker.down_since is None


# -- an endpoint that has never answered --------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "requests"),
    [
        (UNREACHABLE, 5),
        ({"kind": Stop.NONSENSE}, 5),
        ({"kind": Stop.PROXY, "status": 404}, 3),
        ({"kind": Stop.REJECTED, "status": 404}, 3),
        (DOWN, 10),
        ({"kind": Stop.TIMEOUT}, 10),
        ({"kind": Stop.REJECTED, "status": 401, "retry": False}, 1),
    ],
    ids=str,
)
def test_an_endpoint_that_never_answered_is_given_up(play, said, requests):
    endpoint = Endpoint(said)
    caught = play(failure(Retries(attempts=100), endpoint))
    assert (caught.hopeless, caught.retry, len(endpoint.asked)) == (True, False, requests)


@pytest.mark.parametrize("status", [400, 422])
def test_a_bad_request_says_nothing_of_the_endpoint(play, status):
    caught = play(failure(Retries(), Endpoint({**BAD, "status": status})))
    assert not caught.hopeless


def test_faults_at_the_same_time_are_one(play):
    """Sixty-four requests that fail together say no more than one."""
    endpoint, retries = Endpoint(*[UNREACHABLE] * 64, None, seconds=1.0), Retries()

    async def scenario():
        return await asyncio.gather(*[retries.call(endpoint.ask) for _ in range(64)])

    assert [answer for answer, _ in play(scenario())] == ["answer"] * 64


def test_one_that_has_answered_is_not_given_up_for_faults(play):
    endpoint, retries = Endpoint(None, *[UNREACHABLE] * 20, None), Retries()

    async def scenario():
        await retries.call(endpoint.ask)
        return await retries.call(endpoint.ask)

    assert play(scenario()) == ("answer", 21)


# -- outages ------------------------------------------------------------------------------------------


def outage(seconds):
    """An endpoint that is down from its second request on, for so long."""
    endpoint = Endpoint(None)
    answer = endpoint.ask

    async def ask():
        if endpoint.asked and time.monotonic() < endpoint.asked[0] + seconds:
            endpoint.asked.append(time.monotonic())
            raise error(**DOWN)
        return await answer()

    endpoint.ask = ask
    return endpoint


@pytest.mark.parametrize(
    "said", [UNREACHABLE, DOWN, {**DOWN, "status": 502}, {**DOWN, "status": 529}]
)
def test_an_endpoint_that_is_down_stops_all_requests(play, said):
    """Probes alone reach it, and an outage doesn't count as attempts."""
    notes = []
    endpoint, retries = Endpoint(None, *[said] * 8, None), Retries(attempts=1)
    retries.breaker.notify = notes.append

    async def scenario():
        await retries.call(endpoint.ask)
        return await asyncio.gather(*[retries.call(endpoint.ask) for _ in range(10)])

    answers = play(scenario())
    assert [answer for answer, _ in answers] == ["answer"] * 10
    assert len(endpoint.asked) == 1 + 8 + 10
    assert len(notes) == 2
    assert "waiting for the endpoint" in notes[0]
    assert "answers again" in notes[1]
    assert retries.breaker.down_since is None


def test_all_requests_notice_the_end_of_an_outage_at_once(play):
    endpoint, retries = outage(60.0), Retries(attempts=1)

    async def scenario():
        await retries.call(endpoint.ask)
        await asyncio.gather(*[retries.call(endpoint.ask) for _ in range(8)])

    play(scenario())
    first, last = endpoint.asked[-8], endpoint.asked[-1]
    assert first >= endpoint.asked[0] + 60.0
    assert last <= first + 0.11  # a poll later at most


def test_people_are_told_how_long_an_outage_may_take_and_took(play):
    notes, endpoint = [], outage(100.0)
    retries = Retries(attempts=1, patience=500.0)
    retries.breaker.notify = notes.append

    async def scenario():
        await retries.call(endpoint.ask)
        await retries.call(endpoint.ask)

    play(scenario())
    began, ended = notes
    assert began == "waiting for the endpoint, 500 s at most: said"
    seconds = re.fullmatch(r"the endpoint answers again after (\d+) s", ended)[1]
    assert 100 <= int(seconds) <= 116


def test_a_fault_of_a_requests_own_tells_nobody_until_it_waits_for_long(play):
    """Waits of two seconds and more are shown, and one of many in ten seconds."""
    notes, retries = [], Retries(attempts=9, first_wait=8.0)
    retries.breaker.notify = notes.append

    async def scenario():
        await retries.call(Endpoint(None).ask)
        await retries.call(Endpoint({**FAULT, "after": 1.9}, None).ask)
        silent = list(notes)
        for _ in range(3):
            await retries.call(Endpoint({**FAULT, "after": 2.0}, None).ask)
        return silent

    assert play(scenario()) == []
    assert notes == ["waiting 2 s before the next attempt: said"]


def test_probes_come_at_growing_intervals_of_at_most_fifteen_seconds(play):
    endpoint, retries = outage(200.0), Retries(attempts=1)

    async def scenario():
        await retries.call(endpoint.ask)
        return await retries.call(endpoint.ask)

    play(scenario())
    gaps, longest = endpoint.gaps[1:], 0.25
    assert 14 < max(gaps) <= 15.2
    for gap in gaps:
        assert 0.8 * longest - 1e-6 <= gap <= longest + 0.11  # a poll later at most
        longest = min(longest * 1.5, 15.0)


def test_an_outage_is_noticed_within_half_its_length(play):
    for seconds in (5.0, 20.0):
        endpoint, retries = outage(seconds), Retries(attempts=1)

        async def scenario(endpoint=endpoint, retries=retries):
            await retries.call(endpoint.ask)
            await retries.call(endpoint.ask)
            return time.monotonic() - endpoint.asked[0]

        assert play(scenario()) <= 1.5 * seconds + 0.2


def test_an_outage_beyond_patience_ends_every_request(play):
    endpoint, retries = outage(1e9), Retries(attempts=1, patience=30.0)

    async def scenario():
        await retries.call(endpoint.ask)
        began = time.monotonic()
        caught = await asyncio.gather(*[failure(retries, endpoint) for _ in range(3)])
        return caught, time.monotonic() - began

    caught, waited = play(scenario())
    assert all(each.hopeless and not each.retry for each in caught)
    assert {each.status for each in caught} == {503}
    assert all("waited 30 s" in str(each) for each in caught)
    assert 30 <= waited < 46


def test_without_patience_an_outage_is_a_fault(play):
    endpoint, retries = Endpoint(None, DOWN), Retries(attempts=3, patience=0)

    async def scenario():
        await retries.call(endpoint.ask)
        return await failure(retries, endpoint)

    assert not play(scenario()).hopeless
    assert len(endpoint.asked) == 1 + 3
    assert retries.breaker.down_since is None


def test_one_requests_fault_is_its_own_and_two_requests_are_an_outage(play):
    one, retries = Endpoint(FAULT), Retries(attempts=3)
    other = Endpoint(FAULT, FAULT, None)

    async def scenario():
        await retries.call(Endpoint(None).ask)
        await failure(retries, one)
        alone = retries.breaker.down_since
        answer = await retries.call(other.ask)
        return alone, answer

    alone, answer = play(scenario())
    assert alone is None
    assert answer == ("answer", 3)


def test_an_answer_in_between_clears_the_faults_of_others(play):
    one, other, retries = Endpoint(FAULT, None), Endpoint(FAULT), Retries(attempts=1)

    async def scenario():
        await retries.call(Endpoint(None).ask)
        await failure(retries, one)
        await retries.call(one.ask)
        await failure(retries, other)
        return retries.breaker.down_since

    assert play(scenario()) is None


def test_a_request_made_before_the_outage_does_not_end_it(play):
    """Its late answer says nothing of the endpoint now."""
    slow, retries = Endpoint(None, seconds=5.0), Retries(attempts=1, patience=20)

    async def scenario():
        early = asyncio.ensure_future(retries.call(slow.ask))
        await asyncio.sleep(1)
        down = asyncio.ensure_future(failure(retries, Endpoint(DOWN)))
        await early
        still = retries.breaker.down_since
        down.cancel()
        return still

    assert play(scenario()) is not None


def test_retry_after_of_an_outage_moves_the_next_probe(play):
    endpoint, retries = Endpoint(None, {**DOWN, "after": 9.0}, None), Retries()

    async def scenario():
        await retries.call(endpoint.ask)
        await retries.call(endpoint.ask)

    play(scenario())
    assert 9.0 <= endpoint.gaps[1] <= 9.2


# -- rate limits --------------------------------------------------------------------------------------


class Limit:
    """An endpoint that answers so many requests in each second, and refuses the rest with 429."""

    def __init__(self, a_second, after=None):
        self.a_second, self.after = a_second, after
        self.answered, self.refused = [], 0

    async def ask(self):
        now = time.monotonic()
        await asyncio.sleep(0.05)
        if sum(now - 1 < at for at in self.answered) >= self.a_second:
            self.refused += 1
            raise error(**LIMITED, after=self.after)
        self.answered.append(now)
        return "answer"


def test_rate_limits_cost_no_attempt_and_few_refusals(play):
    """Of 400 replies at ten a second, few are refused, and most of the limit is used."""
    limit, retries = Limit(10), Retries(attempts=1)

    async def scenario():
        waiting = asyncio.Semaphore(32)

        async def one():
            async with waiting:
                return await retries.call(limit.ask)

        began = time.monotonic()
        answers = await asyncio.gather(*[one() for _ in range(400)])
        return answers, time.monotonic() - began

    answers, seconds = play(scenario())
    assert [answer for answer, _ in answers] == ["answer"] * 400
    assert seconds < 400 / 10 * 1.5
    assert limit.refused < 200


def test_a_pace_is_cut_by_refusals_and_rises_faster_far_below_its_ceiling(play):
    """Each answer raises the rate by 15 %, and by 2 % above 0.81 of the last refused rate."""
    pace, entered = Pace(), []

    async def request(answered):
        await pace.enter()
        entered.append(time.monotonic())
        await asyncio.sleep(0.001)
        if answered:
            pace.answered()
        else:
            pace.refused(entered[-1], 0.0)

    async def scenario():
        for answered in [True] * 10 + [False] + [True] + [False] * 4 + [True] * 5:
            await request(answered)

    play(scenario())
    first = 10 * 0.9  # of ten answers within a second
    ceiling = first * 1.15
    low = ceiling * 0.9**4
    rates = [ceiling, ceiling * 0.9, ceiling * 0.9**2, ceiling * 0.9**3, low]
    high = low * 1.15**2
    rates += [low * 1.15, high, high * 1.02, high * 1.02**2]
    gaps = [later - one for one, later in itertools.pairwise(entered[11:])]
    assert gaps == pytest.approx([1 / rate for rate in rates], rel=1e-6)


def test_the_slowest_pace_is_a_request_in_twenty_seconds(play):
    pace, entered = Pace(), []

    async def scenario():
        for _ in range(80):
            await pace.enter()
            entered.append(time.monotonic())
            pace.refused(entered[-1], 0.0)

    play(scenario())
    assert entered[-1] - entered[-2] == pytest.approx(20.0)
    assert entered[2] - entered[1] == pytest.approx(1 / 0.9**2)  # nothing was answered


def test_a_pace_is_cut_once_by_requests_made_before_the_cut(play):
    pace = Pace()

    async def scenario():
        began = time.monotonic()
        await asyncio.sleep(1)
        for made in (began, began, began):
            pace.refused(made, 0.0)
        await pace.enter()
        first = time.monotonic()
        await pace.enter()
        return time.monotonic() - first

    assert play(scenario()) == pytest.approx(1 / 0.9)


def test_retry_after_holds_the_refused_request(play):
    endpoint = Endpoint({**LIMITED, "after": 12.0}, None)
    assert play(Retries(attempts=1).call(endpoint.ask)) == ("answer", 2)
    assert endpoint.gaps[0] == pytest.approx(12.0, abs=1.0)


def test_retry_after_holds_everybody_where_nothing_was_answered_since(play):
    one, other, retries = Endpoint({**LIMITED, "after": 30.0}, None), Endpoint(None), Retries()
    second = Endpoint({**LIMITED, "after": 30.0}, None)

    async def scenario():
        began = time.monotonic()
        waiting = [asyncio.ensure_future(retries.call(each.ask)) for each in (one, second)]
        await asyncio.sleep(2.5)
        await retries.call(other.ask)
        await asyncio.gather(*waiting)
        return other.asked[0] - began

    assert play(scenario()) >= 30.0


def test_a_rate_limit_beyond_patience_is_hopeless(play):
    endpoint, retries = Endpoint({**LIMITED, "after": 10.0}), Retries(patience=25.0)

    async def scenario():
        began = time.monotonic()
        caught = await failure(retries, endpoint)
        return caught, time.monotonic() - began

    caught, waited = play(scenario())
    assert (caught.hopeless, caught.retry) == (True, False)
    assert 25.0 <= waited <= 50.0


def test_without_patience_a_rate_limit_counts_as_an_attempt(play):
    endpoint = Endpoint(LIMITED)
    play(failure(Retries(attempts=3, patience=0), endpoint))
    assert len(endpoint.asked) == 3


def test_it_can_be_used_in_another_loop(play):
    retries = Retries()
    for _ in range(2):
        endpoint = Endpoint(LIMITED, None)
        assert play(retries.call(endpoint.ask)) == ("answer", 2)
