"""Whole histories: none that is healthy gets a verdict, at any time; each fault gets its own, and no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chronik.trace.events import EventsLost, TraceBegan
from chronik.trace.stalls import find
from chronik.trace.stalls.window import thin
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.world import (
    GROUP,
    HOST,
    NODES,
    TOPIC,
    WRITER,
    Consumer,
    Partition,
    World,
    reader,
    refused,
    three_partitions,
    world,
)

ENDS_S = 95
LOOK_EVERY_S = 10
# A history is long: to look for a smaller one would take many minutes, and it is not easier to read.
quick = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def watched(happening: World, until_s: float = ENDS_S) -> list[Verdict]:
    """What is found at any time."""
    found: list[Verdict] = []
    second = happening.tick / 10 + LOOK_EVERY_S
    while second <= until_s:
        happening.run(second)
        found += find(happening.events, happening.now_us)
        found += find(thin(happening.events), happening.now_us)
        second += LOOK_EVERY_S
    return found


# --- what is healthy

Incident = Callable[[World, float], None]


def leader_moves(w: World, at: float) -> None:
    """A node is gone for two seconds; clients are refused, ask where to go, and go there."""
    number, before = 0, w.partitions[0].leader
    target = next(node for node in NODES if node != before)

    def refuse() -> None:
        for client in (WRITER, "reader"):
            w.add(refused(w.now_us, target, "produce", client, 6, "NOT_LEADER_OR_FOLLOWER", TOPIC, number, -1))
            w.tell_metadata(client, (target,), (-1, *(w.partitions[n].leader for n in (1, 2))))

    w.at(at, lambda: w.down.add(before))
    w.every(at, at + 2, 0.3, refuse)
    w.at(at + 2, lambda: w.down.discard(before))
    w.at(at + 2, lambda: w.lead(number, target))
    w.at(at + 2, lambda: w.restart(before))
    for client in (WRITER, "reader"):
        w.at(at + 2.1, partial(w.tell_metadata, client, NODES))


def follower_leaves(w: World, at: float) -> None:
    """It stops, is out of the in-sync set within two seconds, and comes back much later."""

    def out() -> None:
        for p in w.partitions.values():
            p.in_sync = tuple(node for node in p.in_sync if node != 3 or p.leader == 3)

    def back() -> None:
        w.frozen_followers.discard(3)

    def in_again() -> None:
        for p in w.partitions.values():
            if p.ends[3] >= p.watermark:
                p.in_sync = NODES

    w.at(at, lambda: w.frozen_followers.add(3))
    w.at(at + 2, out)
    w.at(at + 30, back)
    w.at(at + 35, in_again)


def group_rebalances(w: World, at: float) -> None:
    w.at(at, lambda: w.rebalance(4.0))


def another_comes_and_goes(w: World, at: float) -> None:
    guest = reader(0, name="guest", group=None, first_connection=40)

    def goes() -> None:
        w.consumers.remove(guest)
        w.drop_fetches(guest)

    w.at(at, lambda: w.consumers.append(guest))
    w.at(at + 7, goes)


def members_come_one_by_one(w: World, at: float) -> None:
    for index in range(4):
        late = Consumer("late", f"late-{index}", ())
        w.at(at + 8 * index, partial(w.consumers.append, late))
        w.at(at + 8 * index, w.rebalance)


def log_start_moves(w: World, at: float) -> None:
    def delete() -> None:
        for p in w.partitions.values():
            p.log_start = min([p.watermark // 2, *(c.worked.get(p.number, 0) for c in w.consumers)])

    w.at(at, delete)


def events_are_lost(w: World, at: float) -> None:
    w.at(at, lambda: w.add(EventsLost(w.now_us, 1, 1_000)))


def tracing_pauses(w: World, at: float) -> None:
    def off() -> None:
        w.is_traced = False

    def on() -> None:
        w.is_traced = True
        for node in NODES:
            w.add(TraceBegan(w.now_us, node))

    w.at(at, off)
    w.at(at + 25, on)


def the_readers_end(w: World, at: float) -> None:
    def end() -> None:
        for c in [each for each in w.consumers if each.group is not None]:
            w.leave(c)

    w.at(at, end)


def a_job_runs_every_minute(w: World, at: float) -> None:
    """Each time it reads from the beginning, and ends in the middle."""

    def run(index: int) -> None:
        job = reader(0, 1, name="job", group=None, first_connection=100 + 10 * index)
        w.consumers.append(job)
        w.at(w.tick / 10 + 1.5, lambda: w.consumers.remove(job))
        w.at(w.tick / 10 + 1.5, lambda: w.drop_fetches(job))

    for index in range(4):
        w.at(at + 15 * index, partial(run, index))


def a_job_joins_a_group_of_its_own_every_few_seconds(w: World, at: float) -> None:
    """Nothing else is in that group."""

    def come(index: int) -> None:
        job = reader(0, name="cron", first_connection=500 + 10 * index)
        for c in [each for each in w.consumers if each.group is not None]:
            w.leave(c)
        w.consumers.append(job)
        job.member_id = f"cron-{index}"
        w.rebalance(0.3)
        w.at(w.tick / 10 + 1.5, lambda: w.leave(job))
        w.at(w.tick / 10 + 1.6, lambda: w.enter("Empty"))

    for index in range(15):
        w.at(at + 3 * index, partial(come, index))


def producers_rest(w: World, at: float) -> None:
    rates = {number: p.rate for number, p in w.partitions.items()}

    def rest() -> None:
        for p in w.partitions.values():
            p.rate = 0

    def go_on() -> None:
        for number, p in w.partitions.items():
            p.rate = rates[number]

    w.at(at, rest)
    w.at(at + 20, go_on)


INCIDENTS: list[Incident] = [
    leader_moves,
    follower_leaves,
    group_rebalances,
    another_comes_and_goes,
    members_come_one_by_one,
    log_start_moves,
    events_are_lost,
    tracing_pauses,
    the_readers_end,
    a_job_runs_every_minute,
    a_job_joins_a_group_of_its_own_every_few_seconds,
    producers_rest,
]

lags = st.dictionaries(st.sampled_from(NODES), st.integers(1, 20))
rates = st.sampled_from([0, 1, 3, 50])
consumers = st.builds(
    reader,
    speed=st.sampled_from([1, 3, 20, 10**9]),
    commit_every=st.sampled_from([0, 5, 50, 150]),
    buffer=st.sampled_from([10, 500, 3_000]),
    group=st.sampled_from([GROUP, GROUP, None]),
    asks_when_empty=st.booleans(),
)


@st.composite
def healthy_worlds(draw: st.DrawFn) -> World:
    partitions = [Partition(number, NODES[number], draw(rates), lag=draw(lags)) for number in range(3)]
    w = World(partitions, [draw(consumers)], is_traced=draw(st.sampled_from([True, True, True, False])))
    incidents = draw(st.lists(st.sampled_from(INCIDENTS), max_size=3, unique=True))
    for incident in incidents:
        incident(w, draw(st.integers(5, 60)))
    return w


@settings(quick, max_examples=50)
@given(healthy_worlds())
def test_nothing_is_found_in_a_healthy_history(w: World) -> None:
    assert watched(w) == []


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda each: each.__name__)
def test_nothing_is_found_around_an_everyday_incident(incident: Incident) -> None:
    w = world()
    incident(w, 20)
    assert watched(w) == []


def test_heavy_load_is_no_stall_although_there_is_always_more_behind_the_watermark() -> None:
    w = World([Partition(0, 1, rate=500, lag={2: 20, 3: 25})], [reader(0)])
    assert watched(w, 30) == []


def test_a_slow_consumer_that_falls_ever_further_behind_is_no_stall() -> None:
    assert watched(world(rate=50, speed=1, buffer=500)) == []


def test_a_slow_consumer_that_works_through_one_partition() -> None:
    """A slow consumer that works through one partition after the other is no stall."""
    assert watched(world(rate=5, speed=1, asks_when_empty=True)) == []
    assert watched(world(rate=30, speed=10, asks_when_empty=True, commit_every=50)) == []


def test_an_empty_topic_and_an_idle_group_are_no_stall() -> None:
    assert watched(world(rate=0)) == []
    assert watched(World(three_partitions(), [])) == []


# --- what is not

Fault = Callable[[World], None]


def follower_stops(w: World) -> None:
    w.frozen_followers.add(3)


def leader_does_not_sync(w: World) -> None:
    w.frozen_disks.add(1)


def watermark_is_stuck(w: World) -> None:
    w.frozen_watermark = True


def too_few_are_in_sync(w: World) -> None:
    for p in w.partitions.values():
        p.in_sync = (p.leader,)


def fetches_hang(w: World) -> None:
    w.hangs = True


def one_partition_starves(w: World) -> None:
    w.starved.add(1)


def one_partition_is_not_asked_for(w: World) -> None:
    w.consumers[0].paused.add(1)


def writer_is_refused(w: World) -> None:
    w.tell_metadata(WRITER, (1,), (1, 1, 1))
    w.refuses_writer_for = {1, 2}


def writer_finds_no_leader(w: World) -> None:
    w.refuses_writer_for = {1, 2}
    for p in w.partitions.values():
        p.rate = 0 if p.number in (1, 2) else p.rate
    w.every(w.tick / 10 + 0.1, ENDS_S, 0.5, lambda: w.tell_metadata(WRITER, (1,)))


def coordinator_is_not_found(w: World) -> None:
    code = (16, "NOT_COORDINATOR")
    w.every(w.tick / 10, ENDS_S, 0.5, lambda: w.add(refused(w.now_us, 3, "heartbeat", "other", *code)))


def consumer_stops(w: World) -> None:
    w.consumers[0].stops = True
    w.drop_fetches(w.consumers[0])


def group_does_not_come_to_rest(w: World) -> None:
    w.enter("PreparingRebalance")


def group_is_dealt_out_again_and_again(w: World) -> None:
    guest = Consumer("guest", "guest-0", ())
    start = w.tick / 10

    def comes(index: int) -> None:
        guest.member_id = f"guest-{index}"
        w.consumers.append(guest)
        w.rebalance(0.5)

    def goes() -> None:
        w.leave(guest)
        w.rebalance(0.5)

    for index in range(20):
        w.at(start + 3 * index + 0.1, partial(comes, index))
        w.at(start + 3 * index + 1.6, goes)


def a_client_hangs_up_too_early(w: World) -> None:
    start, count = w.tick, iter(range(10_000))

    def hang_up() -> None:
        w.drop("impatient", 1_000 + next(count), 1, 0, 7, waited=2)

    w.every(start / 10 + 0.1, ENDS_S, 0.4, hang_up)


def a_member_expires_again_and_again(w: World) -> None:
    nervous = Consumer("nervous", "nervous-0", ())
    w.consumers.append(nervous)
    start = w.tick / 10

    def goes() -> None:
        w.leave(nervous, "expired")
        w.rebalance(0.3)

    def comes(index: int) -> None:
        nervous.member_id = f"nervous-{index}"
        w.consumers.append(nervous)
        w.rebalance(0.3)

    for index in range(10):
        w.at(start + 6 * index + 1, goes)
        w.at(start + 6 * index + 3, partial(comes, index))


FAULTS: dict[Fault, Cause] = {
    follower_stops: Cause.WATERMARK_STANDS_STILL,
    leader_does_not_sync: Cause.WATERMARK_STANDS_STILL,
    watermark_is_stuck: Cause.WATERMARK_STANDS_STILL,
    too_few_are_in_sync: Cause.WATERMARK_STANDS_STILL,
    fetches_hang: Cause.FETCH_HANGS,
    one_partition_starves: Cause.PARTITION_BEHIND,
    one_partition_is_not_asked_for: Cause.PARTITION_BEHIND,
    writer_is_refused: Cause.REFUSED_FOR_LEADERSHIP,
    writer_finds_no_leader: Cause.REFUSED_FOR_LEADERSHIP,
    coordinator_is_not_found: Cause.REFUSED_FOR_LEADERSHIP,
    consumer_stops: Cause.CONSUMER_STOPPED,
    group_does_not_come_to_rest: Cause.GROUP_REBALANCING,
    group_is_dealt_out_again_and_again: Cause.GROUP_REBALANCING,
    a_client_hangs_up_too_early: Cause.CLIENT_LIMIT,
    a_member_expires_again_and_again: Cause.CLIENT_LIMIT,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
@settings(quick, max_examples=5)
@given(rate=st.sampled_from([1, 3, 20]), lag=lags, begins=st.integers(10, 30), speed=st.sampled_from([5, 10**9]))
def test_each_fault_gets_its_cause_and_no_other(
    fault: Fault, rate: int, lag: dict[int, int], begins: int, speed: int
) -> None:
    w = World([Partition(n, NODES[n], rate, lag=dict(lag)) for n in range(3)], [reader(speed=speed, buffer=50)])
    w.run(begins)
    assert find(w.events, w.now_us) == []
    fault(w)
    w.run(begins + 45)
    found = find(w.events, w.now_us)
    assert {verdict.cause for verdict in found} == {FAULTS[fault]}, found
    assert [_who(verdict) for verdict in find(thin(w.events), w.now_us)] == [_who(verdict) for verdict in found]
    for verdict in found:
        assert verdict.evidence
        assert verdict.advice
        assert begins - 2 <= (verdict.since_us - w.now_us) / 1e6 + begins + 45 <= begins + 45


def _who(verdict: Verdict) -> tuple[object, ...]:
    return verdict.cause, verdict.topic, verdict.partition, verdict.group, verdict.client_id, verdict.node


STATE_SHOWS = {
    follower_stops,
    leader_does_not_sync,
    watermark_is_stuck,
    too_few_are_in_sync,
    group_does_not_come_to_rest,
    group_is_dealt_out_again_and_again,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
def test_with_tracing_off_what_state_shows_is_found_and_nothing_is_guessed(fault: Fault) -> None:
    w = world(is_traced=False)
    w.run(20)
    fault(w)
    w.run(65)
    causes = {verdict.cause for verdict in find(w.events, w.now_us)}
    if fault is a_member_expires_again_and_again:  # why it is dealt out anew is in the trace alone
        assert causes == {Cause.GROUP_REBALANCING}
    else:
        assert causes == ({FAULTS[fault]} if fault in STATE_SHOWS else set())


def test_what_was_sent_and_never_came_is_told_to_those_who_expect_it() -> None:
    w = world(rate=3)
    w.run(20)
    for p in w.partitions.values():
        p.rate = 0
    w.run(30)
    held = sum(p.end for p in w.partitions.values())

    assert find(w.events, w.now_us) == []
    assert find(w.events, w.now_us, expected={TOPIC: held, "elsewhere": 5}) == []
    (verdict,) = find(w.events, w.now_us, expected={TOPIC: held + 7})

    assert verdict.cause is Cause.NEVER_PRODUCED
    assert verdict.summary.startswith("7 records of orders never came")


def test_a_verdict_names_who_is_concerned() -> None:
    w = world()
    w.run(20)
    w.hangs = True
    w.run(40)
    found = find(w.events, w.now_us)
    assert {(each.client_id, each.host, each.group, each.topic) for each in found} == {("reader", HOST, GROUP, TOPIC)}
    assert {each.node for each in found} == set(NODES)


def test_what_is_over_is_not_told() -> None:
    w = world()
    w.run(20)
    w.frozen_followers.add(3)
    w.run(30)
    assert find(w.events, w.now_us) != []
    w.frozen_followers.discard(3)
    w.run(32)
    assert find(w.events, w.now_us) == []
