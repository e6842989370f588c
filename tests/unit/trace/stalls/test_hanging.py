"""Transaction hangs: which one, of which producer, since when, and what it holds back; and which do not hang."""

from __future__ import annotations

from chronik.trace.events import (
    AnyEvent,
    MarkerMissing,
    OpenTransactionSeen,
    ProduceAppended,
    TransactionCompleted,
    TransactionSeen,
)
from chronik.trace.stalls import find as find_all
from chronik.trace.stalls.hanging import find
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import CLIENT, HOST, TOPIC, at, history, seen, waits

ID, PRODUCER, COORDINATOR = "billing-1", 7, 2
OPEN = OpenTransactionSeen(PRODUCER, 0, 100, 109)
SECONDS = range(21)


def transaction(
    second: float,
    *,
    state: str = "Ongoing",
    timeout_s: float = 60,
    began: float = -1,
    changed: float = -1,
    missing: tuple[MarkerMissing, ...] = (),
    partitions: tuple[tuple[str, int], ...] = ((TOPIC, 0),),
) -> TransactionSeen:
    open_ms, state_ms = round(1000 * (second - began)), round(1000 * (second - changed))
    who = ID, PRODUCER, 0, state, round(timeout_s * 1000)
    return TransactionSeen(at(second), COORDINATOR, *who, open_ms, state_ms, partitions, missing)


def held(second: float, *, last: int = 109, is_traced: bool = True) -> AnyEvent:
    one = OpenTransactionSeen(PRODUCER, 0, 100, last)
    return seen(second, 150, stable=100, transactions=(one,), is_traced=is_traced)


def reader(second: float, *, is_committed_only: bool = True, offset: int = 100) -> AnyEvent:
    return waits(second, offset, 150, stable=100, is_committed_only=is_committed_only)


def wrote(second: float, partition: int = 0) -> AnyEvent:
    who = TOPIC, partition, "writer", HOST, 1, -1, PRODUCER, 0, 4
    return ProduceAppended(at(second), 1, *who, 108, 110, 99, False, 1, 108)


def abandoned() -> list[AnyEvent]:
    return [event for second in SECONDS for event in (transaction(second), held(second), reader(second))]


def found(events: list[AnyEvent], now: float = 20) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


# --- its producer is silent


def test_a_silent_producer_whose_transaction_is_waited_for_is_named() -> None:
    (verdict,) = found(abandoned())

    assert verdict.cause is Cause.TRANSACTION_HANGS
    assert (verdict.transactional_id, verdict.producer_id) == (ID, PRODUCER)
    assert (verdict.topic, verdict.partition, verdict.node, verdict.since_us) == (TOPIC, 0, 1, at(0))
    assert "orders:0 holds back 50 offsets from 100 on" in verdict.summary
    assert "its producer 7.0 has written nothing since" in verdict.summary
    assert any("the last stable offset is 100, the watermark 150" in line for line in verdict.evidence)
    assert any(f"client {CLIENT!r}" in line for line in verdict.evidence)
    assert f"`chronik transaction abort {ID}`" in verdict.advice
    assert "by itself in 39.0 s" in verdict.advice


def test_a_producer_that_was_silent_for_less_than_ten_seconds_is_not() -> None:
    assert not found([*abandoned(), wrote(11)])
    assert found([*abandoned(), wrote(9)])


def test_what_it_wrote_to_another_partition_counts() -> None:
    assert not found([*abandoned(), wrote(11, partition=1)])


def test_a_batch_that_is_seen_in_the_partition_counts() -> None:
    events = [event for event in abandoned() if not (event.at_us < at(12) and event.at_us >= at(0))]
    assert not found([*events, *(held(second, last=104) for second in range(12))])


def test_a_partition_that_was_added_lately_counts() -> None:
    events: list[AnyEvent] = [held(second) for second in SECONDS]
    events += [reader(second) for second in SECONDS]
    assert not found([*events, transaction(20, changed=12)])
    assert found([*events, transaction(20, changed=9)])


def test_a_transaction_that_no_reader_waits_for_is_none_of_our_business() -> None:
    silent: list[AnyEvent] = [event for second in SECONDS for event in (transaction(second), held(second))]

    assert not found(silent)
    assert not found([*silent, *(reader(second, is_committed_only=False) for second in SECONDS)])
    assert not found([*silent, *(reader(second, offset=50) for second in SECONDS)]), "it has enough to read"


def test_nothing_is_said_where_what_it_wrote_is_not_known() -> None:
    events: list[AnyEvent] = [
        event for second in SECONDS for event in (transaction(second), held(second, is_traced=False), reader(second))
    ]
    assert not found(events)
    elsewhere = (("others", 3), (TOPIC, 0))
    assert not found([held(second) for second in SECONDS] + [transaction(20, partitions=elsewhere), reader(20)])


def test_offsets_of_a_group_are_part_of_it_and_change_nothing() -> None:
    with_offsets = transaction(20, partitions=(("__consumer_offsets", 3), (TOPIC, 0)))
    assert found([*abandoned(), with_offsets])


def test_one_that_its_coordinator_does_not_tell_of_any_more_is_over() -> None:
    events = [event for event in abandoned() if not (isinstance(event, TransactionSeen) and event.at_us > at(16))]
    assert found(events, now=17.5), "its coordinator has told nothing else"
    assert not found([*events, seen(20, 5, node=COORDINATOR, partition=3)])


def test_one_that_was_completed_since_is_over() -> None:
    assert not found([*abandoned(), TransactionCompleted(at(20), COORDINATOR, ID, PRODUCER, 1, False, 5)])


# --- past its time


def test_one_that_is_open_past_its_timeout_is_its_coordinators_fault() -> None:
    (verdict,) = found([transaction(second, timeout_s=10) for second in SECONDS])

    assert "is open for 21.0 s, and should have been aborted after 10.0 s" in verdict.summary
    assert (verdict.node, verdict.topic, verdict.since_us) == (COORDINATOR, TOPIC, at(-1))
    assert not found([transaction(second, timeout_s=17) for second in SECONDS])


# --- decided, and not delivered


def test_a_marker_that_does_not_arrive_names_the_partition_and_why() -> None:
    missing = MarkerMissing(TOPIC, 0, 3, "node 3 could not be asked: connection refused")
    told = [transaction(second, state="PrepareCommit", changed=2, missing=(missing,)) for second in range(2, 12)]

    (verdict,) = found([*told, *(held(second) for second in range(12))], now=11)

    assert verdict.cause is Cause.TRANSACTION_HANGS
    assert (verdict.topic, verdict.partition, verdict.node, verdict.since_us) == (TOPIC, 0, 3, at(2))
    assert f"orders:0 does not hear that transaction {ID!r} was committed" in verdict.summary
    assert "node 3 could not be asked: connection refused" in verdict.summary
    assert any("the last stable offset is 100" in line for line in verdict.evidence)
    assert "whether node 3 runs, and whether node 2" in verdict.advice


def test_a_partition_without_leader_is_said_to_have_none() -> None:
    missing = MarkerMissing(TOPIC, 0, -1, "no node leads it")
    (verdict,) = found([transaction(20, state="PrepareAbort", changed=10, missing=(missing,))])

    assert "was aborted" in verdict.summary
    assert "no node leads orders:0" in verdict.advice


def test_markers_on_their_way_are_no_stall() -> None:
    missing = MarkerMissing(TOPIC, 0, 3, "")
    assert not found([transaction(20, state="PrepareCommit", changed=16, missing=(missing,))])
    assert not found([transaction(20, state="PrepareCommit", changed=2)]), "every partition has its own"


# --- with the other rules


def test_it_is_one_of_the_rules_and_nothing_else_is_said() -> None:
    events = sorted(abandoned(), key=lambda event: event.at_us)
    assert [verdict.cause for verdict in find_all(events, at(20))] == [Cause.TRANSACTION_HANGS]
