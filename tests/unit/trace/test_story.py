"""A record's story: what is told of it, and what is honestly not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from chronik.trace.events import (
    AnyEvent,
    Committed,
    FetchAnswered,
    LeaderChanged,
    ProduceAnswered,
    ProduceAppended,
    Replicated,
    WatermarkMoved,
)
from chronik.trace.inspections import BatchSeen, RecordPlace, RecordView
from chronik.trace.story import KnownRecord, RecordStory, tell

TOPIC, PARTITION, OFFSET = "orders", 1, 42
EVERYBODY = (1, 2, 3)


def batch(leader_epoch: int = 3, base_offset: int = 40, to_offset: int = 45, producer_id: int = 7) -> BatchSeen:
    return BatchSeen(
        base_offset, to_offset, leader_epoch, producer_id, 0, 100, 1_000, 1_000, to_offset - base_offset, 500, "none",
        False, False, "orders-1/00000000000000000000.log", 4_000,
    )  # fmt: skip


def look(node: int, **fields: Any) -> RecordView:
    """As a node has it that has everything up to offset 50; node 1 leads in epoch 3."""
    told: dict[str, Any] = {
        "place": RecordPlace.HERE,
        "is_leader": node == 1,
        "leader": 1,
        "leader_epoch": 3,
        "log_start": 0,
        "watermark": 50,
        "last_stable_offset": 50,
        "next_offset": 50,
        "durable_end_offset": 50,
        "in_sync": EVERYBODY,
        "replicas": EVERYBODY,
        "batch": batch(),
    }
    return RecordView(node, 9_000_000, TOPIC, PARTITION, OFFSET, **{**told, **fields})


def appended(at_us: int = 10, node: int = 1, **fields: Any) -> ProduceAppended:
    told: dict[str, Any] = {
        "client_id": "shop",
        "host": "10.0.0.1",
        "connection": 5,
        "acks": -1,
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 100,
        "base_offset": 40,
        "to_offset": 45,
        "size_bytes": 500,
        "is_duplicate": False,
        "leader_epoch": 3,
        "watermark": 40,
    }
    return ProduceAppended(at_us, node, TOPIC, PARTITION, **{**told, **fields})


def answered(at_us: int = 20, node: int = 1, **fields: Any) -> ProduceAnswered:
    told: dict[str, Any] = {
        "client_id": "shop",
        "host": "10.0.0.1",
        "connection": 5,
        "acks": -1,
        "base_offset": 40,
        "to_offset": 45,
        "watermark_before": 40,
        "watermark": 45,
        "in_sync": EVERYBODY,
        "took_us": 10,
    }
    return ProduceAnswered(at_us, node, TOPIC, PARTITION, **{**told, **fields})


def fetched(
    at_us: int, offset: int, to_offset: int, client_id: str = "billing-1", group: str | None = "billing"
) -> Any:
    return FetchAnswered(
        at_us, 1, TOPIC, PARTITION, client_id, "10.0.0.2", 8, group, offset, 1_000_000, 1, 500, False, 50, 50, 50,
        to_offset, 700, False, 3,
    )  # fmt: skip


def story(
    looks: Sequence[RecordView] | None = None, events: Sequence[AnyEvent] = (), offset: int = OFFSET, **fields: Any
) -> RecordStory:
    known = {"traced_from_us": 0, "is_traced": True} | fields
    return tell(
        TOPIC, PARTITION, offset, KnownRecord(looks=looks or [look(1), look(2), look(3)], events=events, **known)
    )


def test_it_is_said_which_principal_wrote_it_and_which_was_given_it() -> None:
    given = msgspec.structs.replace(fetched(30, 40, 45), principal="User:bob")
    told = story(events=[appended(principal="User:alice"), answered(), given, fetched(31, 40, 45)])
    assert told.acknowledged is not None
    assert told.acknowledged.principal == "User:alice"
    assert [each.principal for each in told.delivered] == ["User:bob", ""]  # "" where it is not known


def test_a_record_that_all_is_known_of() -> None:
    told = story(
        events=[
            appended(),
            Replicated(14, 1, TOPIC, PARTITION, 2, 40, 45),
            Replicated(16, 1, TOPIC, PARTITION, 3, 40, 45),
            WatermarkMoved(16, 1, TOPIC, PARTITION, 40, 45, 45, is_leader=True),
            answered(),
            fetched(30, 40, 45),
            fetched(31, 45, 50),
            fetched(32, 30, 43, "audit", None),
            Committed(40, 2, TOPIC, PARTITION, "billing", "billing-1", "10.0.0.2", 42),
            Committed(50, 2, TOPIC, PARTITION, "billing", "billing-1", "10.0.0.2", 43),
            Committed(60, 2, TOPIC, PARTITION, "billing", "billing-1", "10.0.0.2", 50),
        ],
        committed={"billing": 50, "late": 42},
    )

    assert told.summary == "In the log and below the watermark, so consumers can read it: synced on 3 of 3 replicas."
    assert (told.place, told.is_below_watermark, told.visible_us, told.written_by) == (RecordPlace.HERE, True, 16, 1)
    assert told.acknowledged is not None
    assert (told.acknowledged.appended_us, told.acknowledged.answered_us, told.acknowledged.acks) == (10, 20, -1)
    assert [(copy.node, copy.is_synced, copy.replicated_us) for copy in told.copies] == [
        (1, True, None),
        (2, True, 14),
        (3, True, 16),
    ]
    assert [(each.at_us, each.client_id, each.group) for each in told.delivered] == [
        (30, "billing-1", None),  # no event tells which member had the partition
        (32, "audit", None),
    ]
    assert [(each.group, each.offset, each.has_it, each.at_us) for each in told.committed] == [
        ("billing", 50, True, 50),
        ("late", 42, False, None),
    ]
    assert told.unknown == ()


def test_without_a_trace_it_is_said_what_is_not_known() -> None:
    told = story(traced_from_us=None, is_traced=False, committed={"billing": 43})

    assert told.acknowledged is None
    assert told.unknown == (
        "when it was acknowledged, and with which acks: the topic is not traced",
        "all fetch answers that had it: the topic is not traced",
    )
    assert [(each.group, each.has_it) for each in told.committed] == [("billing", True)]


def test_a_trace_that_begins_later_is_not_taken_for_silence() -> None:
    told = story(events=[fetched(30, 40, 45)], traced_from_us=25)

    assert told.acknowledged is None
    assert len(told.delivered) == 1
    assert told.unknown == (
        "when it was acknowledged, and with which acks: the trace does not reach back that far",
        "all fetch answers that had it: the trace does not reach back that far",
    )


def test_a_record_above_the_watermark_names_who_is_waited_for() -> None:
    lagging = look(3, place=RecordPlace.BEYOND_END, watermark=30, next_offset=30, durable_end_offset=30, batch=None)

    told = story([look(1, watermark=30, last_stable_offset=30), look(2, watermark=30), lagging])

    assert told.summary == (
        "In the log but above the watermark (30), so no consumer can read it yet: synced on 2 of 3 replicas; it waits"
        " for node 3."
    )
    assert not told.is_below_watermark
    assert told.copies[2].words == "does not have it yet: its log ends at 30"


def test_a_copy_that_is_written_and_not_synced_says_so() -> None:
    told = story([look(1), look(2, durable_end_offset=42), look(3)])

    assert (told.copies[1].is_synced, told.copies[1].words) == (False, "has it, not synced to disk yet")


def test_deleted_compacted_and_not_yet_written_each_have_their_words() -> None:
    gone = {"batch": None}
    deleted = story([look(1, place=RecordPlace.DELETED, log_start=43, reason="by retention (retention.ms=1)", **gone)])
    compacted = story([look(1, place=RecordPlace.COMPACTED, **gone)])
    beyond = story([look(1, place=RecordPlace.BEYOND_END, **gone)], offset=60)
    nowhere = story([look(1, place=RecordPlace.NO_SUCH_PARTITION, replicas=(), next_offset=-1, **gone)])

    assert deleted.summary == "Deleted: the log starts at offset 43. By retention (retention.ms=1)."
    assert compacted.summary == "Compacted away: a later record of the same key has replaced it."
    assert beyond.summary == "Not written yet: the log ends at offset 50."
    assert nowhere.summary == "There is no such partition."


def test_the_events_of_a_deleted_record_still_tell_who_had_it() -> None:
    told = story(
        [look(1, place=RecordPlace.DELETED, log_start=43, batch=None)], [appended(), answered(), fetched(30, 40, 45)]
    )

    assert told.acknowledged is not None
    assert told.acknowledged.answered_us == 20
    assert [each.client_id for each in told.delivered] == ["billing-1"]


def test_a_node_that_does_not_answer_is_named() -> None:
    told = story([look(1), look(2)], silent={3: "connection refused"})

    assert told.copies[2].words == "does not answer: connection refused"
    assert told.copies[2].place is None
    assert told.unknown[0] == "what node 3 has: no answer"


def test_after_a_failover_it_is_the_leader_of_that_epoch_that_wrote_it() -> None:
    looks = [look(node, is_leader=node == 2, leader=2, leader_epoch=4) for node in (2, 3)]

    known_by_event = story(looks, [LeaderChanged(90, 2, TOPIC, PARTITION, 1, 3, 2, 4)])
    unknown = story(looks)

    assert (known_by_event.written_by, unknown.written_by) == (1, -1)
    assert story([look(1)]).written_by == 1  # it leads since


def test_a_batch_that_was_cut_off_at_a_failover_is_not_taken() -> None:
    """A batch that was cut off at a failover is not taken for the one that is there."""
    old = look(1, is_leader=False, leader=2, leader_epoch=4, batch=batch(leader_epoch=3, producer_id=9))
    new = look(2, is_leader=True, leader=2, leader_epoch=4, batch=batch(leader_epoch=4))
    events: list[AnyEvent] = [
        appended(10, acks=1, client_id="unlucky"),
        answered(11, acks=1),
        appended(30, node=2, leader_epoch=4),
        answered(35, node=2),
    ]

    told = story([old, new], events)

    assert told.acknowledged is not None
    assert (told.acknowledged.node, told.acknowledged.answered_us) == (2, 35)
    assert told.copies[0].words == "has another batch there, of leader epoch 3: it will be cut off"
    assert len(told.replaced) == 1
    assert "unlucky" in told.replaced[0]
    assert "acks=1" in told.replaced[0]


def test_a_retry_counts_as_one_and_brings_the_answer_that_the_first_try_never_got() -> None:
    told = story(events=[appended(), appended(50, connection=6, is_duplicate=True), answered(60, connection=6)])

    assert told.acknowledged is not None
    assert (told.acknowledged.appended_us, told.acknowledged.answered_us, told.acknowledged.retries) == (10, 60, 1)


def test_a_batch_without_an_answer_in_the_trace_is_not_called_acknowledged() -> None:
    told = story(events=[appended()])

    assert told.acknowledged is not None
    assert told.acknowledged.answered_us is None
    assert told.unknown == ("whether its producer was answered: the trace has the batch, and no answer to it",)


def test_events_of_other_partitions_do_not_count() -> None:
    other = Committed(50, 2, TOPIC, PARTITION + 1, "billing", "billing-1", "10.0.0.2", 99)

    assert story(events=[other]).committed == ()


# --- records that are older than the trace


def test_what_a_follower_has_by_now_is_not_when_it_had_an_older_record() -> None:
    later = [Replicated(90, 1, TOPIC, PARTITION, 2, 48, 50), Replicated(91, 1, TOPIC, PARTITION, 3, -1, 50)]

    told = story(events=later)

    assert [copy.replicated_us for copy in told.copies] == [None, None, None]


def test_a_follower_that_is_first_heard_of_after_the_record_was_written() -> None:
    """A follower that is first heard of after the record was written has it since then for its leader."""
    cut_off = Replicated(5, 3, TOPIC, PARTITION, 2, 40, 45)  # what another leader had there before
    heard = Replicated(14, 1, TOPIC, PARTITION, 2, -1, 45)

    told = story(events=[cut_off, appended(10), heard])

    assert told.copies[1].replicated_us == 14


def test_the_first_commit_that_is_known_is_not_taken_for_the_first_that_there_was() -> None:
    at_once = Committed(90, 2, TOPIC, PARTITION, "billing", "billing-1", "10.0.0.2", 50)
    before = Committed(80, 2, TOPIC, PARTITION, "billing", "billing-1", "10.0.0.2", 42)

    (unknown,) = story(events=[at_once]).committed
    (told,) = story(events=[before, at_once]).committed
    (written,) = story(events=[appended(), at_once]).committed

    assert (unknown.has_it, unknown.at_us, unknown.client_id) == (True, None, None)
    assert (told.at_us, written.at_us) == (90, 90)


def test_a_hole_in_the_trace_of_its_coordinator_hides_which_commit_was_the_first() -> None:
    at_once = Committed(90, 2, TOPIC, PARTITION, "billing", "billing-1", "10.0.0.2", 50)

    (hidden,) = story(events=[appended(), at_once], blind_until_us={2: 30}).committed
    (told,) = story(events=[appended(), at_once], blind_until_us={2: 5, 3: 30}).committed

    assert (hidden.has_it, hidden.at_us, told.at_us) == (True, None, 90)


# --- holes in the trace


def test_a_node_whose_trace_has_a_hole_since_may_have_given_it_to_somebody() -> None:
    whole: list[AnyEvent] = [appended(), answered()]

    told = story(events=whole, blind_until_us={1: 5, 2: 60, 4: 60})  # node 4 has no copy, and never had one
    moved = story(events=[*whole, LeaderChanged(50, 4, TOPIC, PARTITION, 4, 2, 1, 3)], blind_until_us={4: 60})
    hidden = story([look(1, watermark=42), look(2), look(3)], whole, blind_until_us={2: 60})

    assert told.unknown == (
        "all fetch answers that had it: not all that node 2 did after it was written is surely in the trace",
    )
    assert "node 4" in moved.unknown[0]
    assert hidden.unknown == ()  # nobody could give it: it is not below the watermark yet


def test_what_a_silent_node_did_last_may_not_be_in_the_trace() -> None:
    told = story([look(1), look(2)], [appended(), answered()], silent={3: "connection refused"})

    assert told.unknown == (
        "what node 3 has: no answer",
        "all fetch answers that had it: not all that node 3 did after it was written is surely in the trace",
    )


# --- retries after a failover


def test_a_retry_whose_leader_is_gone_gets_what_the_producer_was_told() -> None:
    """Where the leader that took it is gone the answer to a retry is what the producer was told."""
    looks = [look(node, is_leader=node == 2, leader=2, leader_epoch=4) for node in (2, 3)]
    other = appended(40, node=2, leader_epoch=4, connection=6, is_duplicate=True, base_sequence=90)
    retry = appended(50, node=2, leader_epoch=4, connection=6, is_duplicate=True)

    told = story(looks, [other, retry, answered(60, node=2, connection=6)])

    assert told.acknowledged is not None
    assert (told.acknowledged.appended_us, told.acknowledged.answered_us) == (None, 60)
    assert (told.acknowledged.node, told.acknowledged.retries, told.written_by) == (2, 1, -1)
    assert told.unknown == (
        "when it was written, and whether that was answered: the trace has only a retry",
        "all fetch answers that had it: the trace does not reach back that far",
    )


# --- at another Kafka


def elsewhere(place: RecordPlace, offset: int = OFFSET, reason: str | None = None, **fields: Any) -> RecordStory:
    told = RecordView(
        1, 0, TOPIC, PARTITION, offset, place, reason, is_leader=True, leader=1, log_start=0, watermark=45,
        last_stable_offset=44, in_sync=(1, 2), replicas=(1, 2, 3),
    )  # fmt: skip
    return story([told], offset=offset, is_chronik=False, is_traced=False, traced_from_us=None, **fields)


def test_of_another_kafka_it_is_said_what_it_does_not_tell() -> None:
    told = elsewhere(RecordPlace.HERE)

    assert told.summary == "In the log and below the watermark, so consumers can read it."
    assert (told.watermark, told.last_stable_offset, told.next_offset) == (45, 44, -1)
    assert [(copy.node, copy.place, copy.is_synced) for copy in told.copies] == [
        (1, RecordPlace.HERE, None),
        (2, RecordPlace.HERE, None),
        (3, None, None),  # not in sync: it may have it or not
    ]
    assert "no Chronik" in told.unknown[0]
    assert any("synced" in line for line in told.unknown)


def test_what_another_kafka_has_above_its_watermark_is_not_known() -> None:
    told = elsewhere(RecordPlace.ABOVE_WATERMARK, offset=45)

    assert "not below the watermark (45)" in told.summary
    assert "does not tell" in told.summary
    assert {copy.place for copy in told.copies} == {None}
    assert not told.is_below_watermark
    assert told.unknown


@pytest.mark.parametrize("place", [RecordPlace.DELETED, RecordPlace.NO_RECORD])
def test_what_is_gone_at_another_kafka_is_gone_at_its_leader_and_more_is_not_known(place: RecordPlace) -> None:
    told = elsewhere(place, offset=3)

    assert [copy.place for copy in told.copies] == [place, None, None]


def test_another_kafka_without_a_leader_tells_nothing() -> None:
    assert elsewhere(RecordPlace.NO_COPY).summary.startswith("Not known")


def test_an_offset_that_another_kafka_passes_over_is_not_said_to_be_compacted() -> None:
    told = elsewhere(RecordPlace.NO_RECORD, reason="the topic is not compacted, so a marker of a transaction has it")

    assert told.summary.startswith("No record is at this offset")
    assert "marker of a transaction" in told.summary
    assert [copy.place for copy in told.copies] == [RecordPlace.NO_RECORD, None, None]


def test_what_could_not_be_read_at_another_kafka_is_not_known() -> None:
    told = elsewhere(RecordPlace.UNREADABLE, reason="nothing came in 5 s")

    assert told.summary == "Not known: it is between the ends of the log, and could not be read: nothing came in 5 s."
    assert {copy.place for copy in told.copies} == {None}


def test_who_reads_only_what_is_committed_is_not_said_to_be_given_what_was_aborted() -> None:
    told = elsewhere(RecordPlace.HERE, reason="its transaction was aborted")

    assert told.summary == "In the log and below the watermark, but its transaction was aborted."
