"""A missing message is told apart by what the log, the nodes and the trace say of it."""

from __future__ import annotations

import pytest

from chronik.trace.events import AnyEvent, EventsLost, FetchAnswered, LeaderChanged, ProduceAppended, TraceBegan
from chronik.verify.fates import Fate, MissingSearch, fates, served_to
from chronik.verify.ledger import Ledger, LedgerPlace


def a_ledger(*acknowledged_at: int | None, refused: int = 0) -> Ledger:
    """Messages to partition 0: acknowledged at an offset, or (None) without one; then some that were refused."""
    ledger = Ledger(len(acknowledged_at) + refused, lambda: 0.0)
    for number, offset in enumerate(acknowledged_at):
        ledger.send(number, 0)
        ledger.acknowledge(number, 0, offset)
    for number in range(len(acknowledged_at), ledger.messages):
        ledger.send(number, 0)
        ledger.refuse(number, "KafkaTimeoutError")
    return ledger


def answered(offset: int, to_offset: int, client_id: str = "c", partition: int = 0, topic: str = "t") -> AnyEvent:
    return FetchAnswered(
        at_us=0, node=1, topic=topic, partition=partition, client_id=client_id, host="", connection=1, group=None,
        offset=offset, max_bytes=1, min_bytes=1, max_wait_ms=1, is_committed_only=False, watermark=9,
        last_stable_offset=9, next_offset=9, to_offset=to_offset, size_bytes=1, has_waited=False, took_us=1,
    )  # fmt: skip


BEFORE = ProduceAppended(0, 1, "t", 0, "p", "", 1, -1, 7, 0, 0, 0, 9, 100, False, 1, 9)


def fate(ledger: Ledger, found: MissingSearch, number: int = 0) -> Fate:
    return fates([number], ledger, found)[number]


def test_acknowledged_and_something_else_is_at_its_offset_is_lost() -> None:
    found = MissingSearch(read_to={0: 9}, watermarks={0: 9}, next_offsets={0: 9})

    assert fate(a_ledger(5), found) is Fate.LOST


def test_acknowledged_and_the_log_ends_before_it_is_lost() -> None:
    found = MissingSearch(read_to={0: 3}, watermarks={0: 3}, next_offsets={0: 3})

    assert fate(a_ledger(5), found) is Fate.LOST


def test_acknowledged_and_above_the_watermark_is_not_visible() -> None:
    found = MissingSearch(read_to={0: 3}, watermarks={0: 3}, next_offsets={0: 9})

    assert fate(a_ledger(5), found) is Fate.NOT_VISIBLE


def test_above_the_watermark_of_a_log_whose_end_nobody_told_is_lost_or_not_visible() -> None:
    found = MissingSearch(read_to={0: 3}, watermarks={0: 3}, next_offsets={1: 9})

    assert fate(a_ledger(5), found) is Fate.LOST_OR_NOT_VISIBLE


def test_in_the_log_and_never_sent_to_the_consumer_is_not_fetched() -> None:
    found = MissingSearch(
        places={0: LedgerPlace(0, 5)}, read_to={0: 9}, watermarks={0: 9}, served={0: [(0, 5), (6, 9)]}
    )

    assert fate(a_ledger(5), found) is Fate.NOT_FETCHED


def test_in_the_log_and_sent_to_the_consumer_is_not_given() -> None:
    found = MissingSearch(places={0: LedgerPlace(0, 5)}, read_to={0: 9}, watermarks={0: 9}, served={0: [(0, 6)]})

    assert fate(a_ledger(5), found) is Fate.NOT_GIVEN


def test_in_the_log_and_nobody_traced_is_not_consumed() -> None:
    found = MissingSearch(places={0: LedgerPlace(0, 5)}, read_to={0: 9}, watermarks={0: 9}, served=None)

    assert fate(a_ledger(5), found) is Fate.NOT_CONSUMED


def test_below_the_watermark_and_unreadable_for_everybody_is_not_lost() -> None:
    found = MissingSearch(read_to={0: 2}, watermarks={0: 9}, next_offsets={0: 9}, served={})

    assert fate(a_ledger(5), found) is Fate.NOT_FETCHED


def test_a_partition_that_nobody_answers_for_leaves_it_open() -> None:
    assert fate(a_ledger(5), MissingSearch()) is Fate.NOT_KNOWN


def test_refused_and_not_in_the_log_was_never_accepted() -> None:
    found = MissingSearch(read_to={0: 9}, watermarks={0: 9}, next_offsets={0: 9})

    assert fate(a_ledger(refused=1), found) is Fate.NEVER_ACCEPTED


def test_refused_and_not_in_a_log_whose_end_nobody_told_may_not_be_visible_yet() -> None:
    found = MissingSearch(read_to={0: 9}, watermarks={0: 9})
    ledger = Ledger(1, lambda: 0.0, is_answered=False)
    ledger.send(0, 0)
    ledger.acknowledge(0, 0, 4)

    assert fate(a_ledger(refused=1), found) is Fate.NOT_ACCEPTED_OR_NOT_VISIBLE
    assert fate(ledger, found) is Fate.NOT_ACCEPTED_OR_NOT_VISIBLE


def test_a_message_of_no_known_partition_may_be_in_one_that_nobody_told_the_end_of() -> None:
    ledger = Ledger(1, lambda: 0.0, is_answered=True)
    ledger.send(0, -1)
    found = MissingSearch(read_to={0: 9, 1: 0}, watermarks={0: 9}, next_offsets={0: 9})

    assert fate(ledger, found) is Fate.NOT_KNOWN


def test_refused_and_in_the_log_was_accepted() -> None:
    found = MissingSearch(places={0: LedgerPlace(0, 5)}, read_to={0: 9}, watermarks={0: 9}, served={})

    assert fate(a_ledger(refused=1), found) is Fate.NOT_FETCHED


def test_refused_and_the_log_was_not_read_to_its_end_is_not_known() -> None:
    assert fate(a_ledger(refused=1), MissingSearch(read_to={0: 4}, watermarks={0: 9})) is Fate.NOT_KNOWN


def test_as_many_unanswered_messages_as_hide_above_the_watermark_are_not_visible() -> None:
    found = MissingSearch(read_to={0: 5}, watermarks={0: 5}, next_offsets={0: 7})

    told = fates(range(3), a_ledger(refused=3), found)

    assert list(told.values()) == [Fate.NOT_VISIBLE, Fate.NOT_VISIBLE, Fate.NEVER_ACCEPTED]


def test_a_hidden_message_with_a_known_offset_takes_its_own_place() -> None:
    found = MissingSearch(read_to={0: 5}, watermarks={0: 5}, next_offsets={0: 6})

    told = fates(range(2), a_ledger(5, refused=1), found)

    assert list(told.values()) == [Fate.NOT_VISIBLE, Fate.NEVER_ACCEPTED]


def test_sent_with_acks_0_and_not_in_the_log_is_gone() -> None:
    """Sent with acks 0 and not in the log is gone whatever offset the client made up."""
    ledger = Ledger(1, lambda: 0.0, is_answered=False)
    ledger.send(0, 0)
    ledger.acknowledge(0, 0, 4)

    assert fate(ledger, MissingSearch(read_to={0: 9}, watermarks={0: 9}, next_offsets={0: 9})) is Fate.GONE


def test_fates_are_in_the_order_of_the_messages() -> None:
    found = MissingSearch(places={1: LedgerPlace(0, 1)}, read_to={0: 9}, watermarks={0: 9})

    assert list(fates([0, 1], a_ledger(refused=2), found)) == [0, 1]


def test_something_else_at_its_offset_is_lost_whether_or_not_the_end_is_told() -> None:
    assert fate(a_ledger(5), MissingSearch(read_to={0: 9}, watermarks={0: 9})) is Fate.LOST


def test_acknowledged_without_an_offset_and_not_in_the_log_is_lost() -> None:
    assert fate(a_ledger(None), MissingSearch(read_to={0: 9}, watermarks={0: 9}, next_offsets={0: 9})) is Fate.LOST


def test_acknowledged_without_an_offset_and_not_in_a_log_whose_end_nobody_told() -> None:
    """Acknowledged without an offset and not in a log whose end nobody told is lost or not visible."""
    assert fate(a_ledger(None), MissingSearch(read_to={0: 9}, watermarks={0: 9})) is Fate.LOST_OR_NOT_VISIBLE


def test_what_a_client_was_sent_is_joined_into_ranges() -> None:
    events = [BEFORE, answered(4, 6), answered(0, 2), answered(2, 4), answered(8, 8), answered(9, 10)]

    assert served_to("c", "p", "t", events) == {0: [(0, 6), (9, 10)]}


def test_what_others_were_sent_does_not_count() -> None:
    events = [BEFORE, answered(0, 2, client_id="other"), answered(0, 2, topic="other"), answered(5, 6, partition=1)]

    assert served_to("c", "p", "t", events) == {1: [(5, 6)]}


def test_a_trace_that_begins_in_the_middle_of_the_clients_fetches_says_nothing() -> None:
    assert served_to("c", "p", "t", [answered(4, 6)]) is None
    assert served_to("c", "p", "t", []) is None


def test_that_somebody_else_did_something_before_does_not_show() -> None:
    """That somebody else did something before does not show where the clients fetches begin."""
    led = LeaderChanged(0, 1, "t", 0, -1, -1, 1, 0)

    assert served_to("c", "p", "t", [led, answered(4, 6)]) is None
    assert served_to("c", "another producer", "t", [BEFORE, answered(4, 6)]) is None
    assert served_to("c", "p", "t", [answered(4, 6), BEFORE]) is None


@pytest.mark.parametrize("hole", [EventsLost(0, 2, 9), TraceBegan(0, 2)])
def test_a_hole_in_the_trace_may_have_had_any_fetch(hole: AnyEvent) -> None:
    assert served_to("c", "p", "t", [BEFORE, hole, answered(4, 6)]) is None
    assert served_to("c", "p", "t", [BEFORE, answered(4, 6), hole]) is None
    assert served_to("c", "p", "t", [hole, BEFORE, answered(4, 6)]) == {0: [(4, 6)]}
