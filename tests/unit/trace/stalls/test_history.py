"""Events sorted out by whom and what they are about."""

from __future__ import annotations

from chronik.trace.events import AnyEvent, EventsLost, TraceBegan, WatermarkMoved
from chronik.trace.stalls.history import CommitSeen, TracedClient
from tests.unit.trace.stalls.told import (
    CLIENT,
    GROUP,
    HOST,
    TOPIC,
    answered,
    at,
    committed,
    dropped,
    group,
    history,
    member,
    refused,
    seen,
    stored,
    waits,
)

WHO = TracedClient(CLIENT, HOST)


def moved(second: float, watermark: int, *, is_leader: bool = True) -> WatermarkMoved:
    return WatermarkMoved(at(second), 1, TOPIC, 0, 0, watermark, watermark, is_leader)


def test_partitions_are_seen_by_whoever_led_last() -> None:
    past = history(seen(1, 5, epoch=1), seen(2, 6, epoch=2, node=2), seen(3, 5, epoch=1), now=4).partitions[TOPIC, 0]
    assert [each.node for each in past.seen] == [1, 2]
    assert past.name == "orders:0"


def test_it_is_known_when_there_was_first_something_to_read() -> None:
    past = history(seen(1, 5), moved(2, 8), seen(3, 9, stable=7), moved(3.5, 99, is_leader=False), now=4).partitions[
        TOPIC, 0
    ]
    assert past.first_beyond(6, False, at(0)) == at(2)
    assert past.first_beyond(6, True, at(0)) == at(3)
    assert past.first_beyond(4, False, at(1.5)) == at(2)
    assert past.first_beyond(9, False, at(0)) is None


def test_what_clients_did_is_known_as_long_as_it_is_traced_without_a_hole() -> None:
    def known_since(*events: TraceBegan | EventsLost, untraced: int = -1) -> int | None:
        sights = [seen(second, 5, is_traced=second != untraced) for second in range(10)]
        found = history(*sights, *events, now=9)
        return found.known_since_us(found.partitions[TOPIC, 0])

    assert known_since() == at(0)
    assert known_since(untraced=4) == at(5)
    assert known_since(untraced=9) is None
    assert known_since(EventsLost(at(6.5), 1, 3)) == at(7)
    assert known_since(TraceBegan(at(6.5), 1)) == at(7)
    assert known_since(TraceBegan(at(6.5), 2)) == at(0), "another node's"


def test_refusals_in_a_row_end_when_the_client_is_served() -> None:
    key = (WHO, TOPIC, 0)
    assert len(history(refused(1, 6), refused(2, 6), now=3).refused[key]) == 2
    for served in (stored(3), answered(3, 5, 6), waits(3, 5, 5)):
        assert key not in history(refused(1, 6), refused(2, 6), served, now=3).refused
    assert len(history(refused(1, 6), stored(2), refused(3, 6), now=3).refused[key]) == 1


def test_refusals_of_producers_are_kept_until_one_with_acks_all_is_served() -> None:
    def refusals(acks: int) -> int:
        return len(history(refused(1, 19), stored(2, acks, client="other"), now=3).partitions[TOPIC, 0].refusals)

    assert refusals(acks=1) == 1
    assert refusals(acks=-1) == 0


def test_fetches_wait_until_they_are_over() -> None:
    assert history(waits(1, 5, 5), now=2).waiting == {(1, 5): {(TOPIC, 0): waits(1, 5, 5)}}
    assert history(waits(1, 5, 5), answered(2, 5, 6), now=2).waiting == {}
    assert history(waits(1, 5, 5), dropped(2, 5, waited=1, connection=5), now=2).waiting == {}
    assert history(waits(1, 5, 5), dropped(2, 5, waited=1, connection=6), now=2).waiting != {}
    assert history(waits(1, 5, 5), TraceBegan(at(2), 1), now=2).waiting == {}
    assert history(waits(1, 5, 5), TraceBegan(at(2), 2), now=2).waiting != {}


def test_a_fetch_of_several_partitions_waits_for_all_until_the_next_one() -> None:
    first = [waits(1, 5, 5), waits(1, 7, 7, partition=1)]
    assert list(history(*first, now=2).waiting[1, 5]) == [(TOPIC, 0), (TOPIC, 1)]
    assert list(history(*first, waits(2, 5, 5), now=2).waiting[1, 5]) == [(TOPIC, 0)]


def test_commits_are_known_from_events_and_from_state_once_each() -> None:
    events: list[AnyEvent] = [committed(1, 5), group(2, member(0), offsets={0: 5}), group(3, member(0), offsets={0: 9})]
    found = history(*events, now=4)
    assert found.commits[GROUP, (TOPIC, 0)] == [CommitSeen(at(1), 5), CommitSeen(at(3), 9)]
    assert found.committed(GROUP, (TOPIC, 0)) == CommitSeen(at(3), 9)
    assert found.committed("other", (TOPIC, 0)) is None


def test_nodes_that_were_heard_of_lately_are_alive() -> None:
    found = history(seen(1, 5, node=3), seen(9, 5, node=2, epoch=2), committed(9.5, 5), now=10)
    assert found.alive(2_000) == (2,)
    assert found.alive(60_000) == (2, 3)
