"""How a record's batch came in: which node appended it, what its producer was answered, and what stood at its offsets
before.

Pure, of the events of its partition; a part of the story (story.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from chronik.trace.events import AnyEvent, LeaderChanged, ProduceAnswered, ProduceAppended
from chronik.trace.inspections import BatchSeen, RecordView


class Acknowledged(msgspec.Struct, frozen=True):
    """How its batch came in, and what its producer was answered. Of a batch that only a retry is known of: by whom that
    was answered, who sent it, and how long it took."""

    appended_us: int | None  # None: only a retry of it is known
    answered_us: int | None  # None: the producer was not answered, as far as is known
    took_us: int | None
    acks: int
    node: int  # that led then
    client_id: str
    host: str
    in_sync: tuple[int, ...]  # when it was answered
    retries: int  # the same batch sent again: the log had it already
    principal: str = ""  # that sent it; "": not known


class Arrival(NamedTuple):
    """What is known of how a batch came in."""

    acknowledged: Acknowledged | None
    written: ProduceAppended | None  # the step that put it there: no retry
    replaced: tuple[str, ...]


def arrival_of(events: Sequence[AnyEvent], offset: int, batch: BatchSeen | None) -> Arrival:
    """The batch that holds this offset now, and others that held it before a leader changed."""
    appended = [e for e in events if isinstance(e, ProduceAppended) and e.base_offset <= offset < e.to_offset]
    first = [event for event in appended if not event.is_duplicate]
    kept = [e for e in first if batch is None or _is_of(e, batch)]
    written = kept[-1] if kept else None
    retries = [event for event in appended if event.is_duplicate and _is_retry_of(event, batch, written)]
    acknowledged = None
    # The leader that took it may be gone, and its events with it: then a retry is all that is known.
    if tries := [*kept[-1:], *retries]:
        own = tries[0]
        # The first try may have been cut off before its answer: a retry was recorded then.
        answered = next((told for each in tries if (told := _answer_to(events, each)) is not None), None)
        acknowledged = Acknowledged(
            None if written is None else written.at_us,
            None if answered is None else answered.at_us,
            None if answered is None else answered.took_us,
            own.acks,
            own.node,
            own.client_id,
            own.host,
            () if answered is None else answered.in_sync,
            len(retries),
            own.principal,
        )
    # What a later leader took cannot have been cut off for it: then it is this batch that will be.
    cut = [event for event in first if event not in kept and (batch is None or event.leader_epoch < batch.leader_epoch)]
    return Arrival(acknowledged, written, tuple(_cut_words(event, _answer_to(events, event)) for event in cut))


def _is_of(event: ProduceAppended, batch: BatchSeen) -> bool:
    return (event.base_offset, event.to_offset, event.leader_epoch) == (
        batch.base_offset,
        batch.to_offset,
        batch.leader_epoch,
    )


def _is_retry_of(event: ProduceAppended, batch: BatchSeen | None, written: ProduceAppended | None) -> bool:
    """Its leader epoch is that of who answered it, and says nothing. Where the batch is gone, its offsets must do."""
    if written is not None and event.at_us < written.at_us:
        return False  # of another, that was cut off
    return batch is None or _sent(event) == _sent(batch)


def _sent(batch: ProduceAppended | BatchSeen) -> tuple[int, ...]:
    """What a producer that sends it again says of it again, and where it is."""
    return batch.base_offset, batch.to_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence


def _answer_to(events: Sequence[AnyEvent], appended: ProduceAppended) -> ProduceAnswered | None:
    """On the same node and connection, the next one about the same offsets."""
    for event in events:
        if (
            isinstance(event, ProduceAnswered)
            and event.at_us >= appended.at_us
            and (event.node, event.connection) == (appended.node, appended.connection)
            and (event.base_offset, event.to_offset) == (appended.base_offset, appended.to_offset)
        ):
            return event
    return None


def _cut_words(event: ProduceAppended, answered: ProduceAnswered | None) -> str:
    told = "the trace has no answer to its producer"
    if answered is not None:
        told = f"that was acknowledged with acks={event.acks}, which promises one copy, and that one is gone"
        if event.acks == -1:
            told = "its producer got the response that all in-sync replicas have it"
    return (
        f"node {event.node} took another batch for offsets {event.base_offset} to {event.to_offset - 1} in leader epoch"
        f" {event.leader_epoch}, from {event.client_id}; it was cut off when the leader changed, and {told}"
    )


def writer(
    batch: BatchSeen | None, written: ProduceAppended | None, events: Sequence[AnyEvent], leading: RecordView | None
) -> int:
    """The node that led in the epoch that is stamped on the batch."""
    if written is not None:
        return written.node
    if batch is None:
        return -1
    for event in events:
        if isinstance(event, LeaderChanged):
            if event.leader_epoch == batch.leader_epoch:
                return event.leader
            if event.leader_epoch_before == batch.leader_epoch:
                return event.leader_before
    if leading is not None and leading.leader_epoch == batch.leader_epoch:
        return leading.leader
    return -1
