"""One record's whole story: looks at every node, events of all nodes and what groups have committed, put together.

Pure, and honest: whatever was not traced, or is not traced any more, is named in `unknown`, and nothing is concluded
from its absence. What no trace is needed for (which replicas have it, what is committed) is always told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

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
from chronik.trace.looks import BatchSeen, Place, RecordLook

NO_OFFSET = -1


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was gathered of one record."""

    looks: Sequence[RecordLook]  # one a node that answered
    silent: Mapping[int, str] = {}  # nodes that did not, and why
    events: Sequence[AnyEvent] = ()  # of all nodes, by time
    traced_from_us: int | None = None  # the trace reaches back to here; None: there is none
    is_traced: bool = False  # now
    is_chronik: bool = True  # else there is one look, made of what any Kafka tells its clients
    committed: Mapping[str, int] = {}  # by group, of this partition
    members: Mapping[str, str] = {}  # groups by the client ids of their members: a fetch does not say for whom it is


class Acknowledged(msgspec.Struct, frozen=True):
    """How its batch came in, and what its producer was told."""

    appended_us: int
    answered_us: int | None  # None: the producer was not told, as far as is known
    took_us: int | None
    acks: int
    node: int  # that led
    client_id: str
    host: str
    in_sync: tuple[int, ...]  # when it was answered
    retries: int  # the same batch sent again: the log had it already


class CopyTold(msgspec.Struct, frozen=True):
    """A node's copy of it."""

    node: int
    is_leader: bool
    is_in_sync: bool
    place: Place | None  # None: the node does not answer
    is_synced: bool | None  # None: another Kafka does not tell
    replicated_us: int | None  # when the leader heard that this follower has it safely
    words: str


class Delivered(msgspec.Struct, frozen=True):
    """A fetch answer that had it. The group is the one in which a member has the client's id, if any."""

    at_us: int
    node: int
    client_id: str
    host: str
    group: str | None
    from_offset: int
    to_offset: int
    took_us: int


class CommitTold(msgspec.Struct, frozen=True):
    """How far a group is."""

    group: str
    offset: int  # the next one it will read
    has_it: bool  # it has committed this record
    at_us: int | None  # when, if the trace knows; of the first commit that did
    client_id: str | None = None


class Story(msgspec.Struct, frozen=True):
    """All that is known of one record."""

    topic: str
    partition: int
    offset: int
    place: Place
    summary: str
    batch: BatchSeen | None
    written_by: int  # the node that led when it was written; -1: not known
    watermark: int
    last_stable_offset: int
    log_start: int
    next_offset: int
    is_below_watermark: bool
    is_below_last_stable_offset: bool
    visible_us: int | None  # when the watermark passed it
    acknowledged: Acknowledged | None
    replaced: tuple[str, ...]  # what once stood at this offset and was cut off when the leader changed
    copies: tuple[CopyTold, ...]
    delivered: tuple[Delivered, ...]
    committed: tuple[CommitTold, ...]
    unknown: tuple[str, ...]


def tell(topic: str, partition: int, offset: int, known: Known) -> Story:
    """The story of the record at an offset."""
    leading = _leading(known.looks)
    batch = _batch(known.looks, leading)
    events = [event for event in known.events if _is_about(event, topic, partition)]
    acknowledged, replaced = _arrival(events, offset, batch)
    watermark = NO_OFFSET if leading is None else leading.watermark
    stable = NO_OFFSET if leading is None else leading.last_stable_offset
    place = Place.NO_COPY if leading is None else leading.place
    copies = _copies(known, leading, events, offset)
    return Story(
        topic,
        partition,
        offset,
        place,
        _summary(offset, leading, copies, known),
        batch,
        _writer(batch, acknowledged, events, leading),
        watermark,
        stable,
        NO_OFFSET if leading is None else leading.log_start,
        NO_OFFSET if leading is None else leading.next_offset,
        offset < watermark,
        offset < stable,
        _visible_us(events, offset) if offset < watermark else None,  # later than the look: another story
        acknowledged,
        replaced,
        copies,
        _deliveries(events, offset, known.members),
        _commits(events, offset, known.committed),
        _unknown(known, place, acknowledged),
    )


def _is_about(event: AnyEvent, topic: str, partition: int) -> bool:
    return getattr(event, "topic", None) == topic and getattr(event, "partition", None) == partition


def _leading(looks: Sequence[RecordLook]) -> RecordLook | None:
    """The look that counts: the leader's of the latest epoch, or else the one that knows most."""
    with_copy = [look for look in looks if look.next_offset >= 0]
    if not with_copy:
        return next(iter(looks), None)
    return max(with_copy, key=lambda look: (look.is_leader, look.leader_epoch, look.watermark, -look.node))


def _batch(looks: Sequence[RecordLook], leading: RecordLook | None) -> BatchSeen | None:
    if leading is not None and leading.batch is not None:
        return leading.batch
    return next((look.batch for look in looks if look.batch is not None), None)


# --- how it came in


def _arrival(
    events: Sequence[AnyEvent], offset: int, batch: BatchSeen | None
) -> tuple[Acknowledged | None, tuple[str, ...]]:
    """The batch that holds this offset now, and others that held it before a leader changed."""
    appended = [e for e in events if isinstance(e, ProduceAppended) and e.base_offset <= offset < e.to_offset]
    first = [event for event in appended if not event.is_duplicate]
    kept = [e for e in first if batch is None or _is_of(e, batch)]
    acknowledged = None
    if kept:
        own = kept[-1]
        answered = _answer_to(events, own)
        retries = [event for event in appended if event.is_duplicate and event.at_us >= own.at_us]
        if answered is None:  # the first try may have been cut off before its answer: a retry was told then
            answered = next((told for retry in retries if (told := _answer_to(events, retry)) is not None), None)
        acknowledged = Acknowledged(
            own.at_us,
            None if answered is None else answered.at_us,
            None if answered is None else answered.took_us,
            own.acks,
            own.node,
            own.client_id,
            own.host,
            () if answered is None else answered.in_sync,
            len(retries),
        )
    cut = [event for event in first if event not in kept]
    return acknowledged, tuple(_cut_words(event, _answer_to(events, event)) for event in cut)


def _is_of(event: ProduceAppended, batch: BatchSeen) -> bool:
    return (event.base_offset, event.to_offset, event.leader_epoch) == (
        batch.base_offset,
        batch.to_offset,
        batch.leader_epoch,
    )


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
    told = "its producer was not told that it is safe"
    if answered is not None:
        told = f"its producer was told so, with acks={event.acks}: that promises one copy, and that one is gone"
        if event.acks == -1:
            told = "its producer was told that all in-sync replicas have it"
    return (
        f"node {event.node} took another batch for offsets {event.base_offset} to {event.to_offset - 1} in leader epoch"
        f" {event.leader_epoch}, from {event.client_id}; it was cut off when the leader changed, and {told}"
    )


def _writer(
    batch: BatchSeen | None, acknowledged: Acknowledged | None, events: Sequence[AnyEvent], leading: RecordLook | None
) -> int:
    """The node that led in the epoch that is stamped on the batch."""
    if acknowledged is not None:
        return acknowledged.node
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


def _visible_us(events: Sequence[AnyEvent], offset: int) -> int | None:
    for event in events:
        if isinstance(event, WatermarkMoved) and event.is_leader and event.before <= offset < event.watermark:
            return event.at_us
    return None


# --- where it is


def _copies(known: Known, leading: RecordLook | None, events: Sequence[AnyEvent], offset: int) -> tuple[CopyTold, ...]:
    replicas = () if leading is None else leading.replicas
    in_sync = () if leading is None else leading.in_sync
    by_node = {look.node: look for look in known.looks}
    told: list[CopyTold] = []
    for node in replicas:
        look = by_node.get(node)
        is_leader = leading is not None and leading.leader == node
        if not known.is_chronik and leading is not None:
            told.append(_copy_elsewhere(node, leading))
            continue
        heard = next(
            (e.at_us for e in events if isinstance(e, Replicated) and e.follower == node and offset < e.to_offset), None
        )
        if look is None:
            words = f"does not answer: {known.silent.get(node, 'it is not there')}"
            told.append(CopyTold(node, is_leader, node in in_sync, None, False, heard, words))
            continue
        told.append(
            CopyTold(node, is_leader, node in in_sync, look.place, look.is_synced, heard, _copy_words(look, leading))
        )
    return tuple(told)


def _copy_elsewhere(node: int, leading: RecordLook) -> CopyTold:
    """At another Kafka: who is in sync has all that is below the watermark, and no more is told."""
    is_leader, is_in_sync, place = node == leading.leader, node in leading.in_sync, leading.place
    if place is Place.HERE and (is_leader or is_in_sync):
        return CopyTold(node, is_leader, is_in_sync, place, None, None, "has it: it is below the watermark")
    if place in (Place.DELETED, Place.COMPACTED) and is_leader:
        return CopyTold(node, is_leader, is_in_sync, place, None, None, _copy_words(leading, leading))
    return CopyTold(node, is_leader, is_in_sync, None, None, None, "this cluster does not tell what it has")


def _copy_words(look: RecordLook, leading: RecordLook | None) -> str:
    match look.place:
        case Place.HERE:
            other = None if leading is None else leading.batch
            if other is not None and look.batch is not None and _stamp(other) != _stamp(look.batch):
                return f"has another batch there, of leader epoch {look.batch.leader_epoch}: it will be cut off"
            return "has it, synced" if look.is_synced else "has it, not synced to disk yet"
        case Place.DELETED:
            return f"has deleted it: its log starts at {look.log_start}"
        case Place.COMPACTED:
            return "has compacted it away: a later record of its key is there instead"
        case Place.BEYOND_END:
            return f"does not have it yet: its log ends at {look.next_offset}"
        case Place.UNREADABLE:
            return f"cannot read it: {look.reason}"
        case _:
            return "has no copy of the partition"


def _stamp(batch: BatchSeen) -> tuple[int, int]:
    return batch.leader_epoch, batch.base_offset


def _summary(offset: int, leading: RecordLook | None, copies: Sequence[CopyTold], known: Known) -> str:
    if leading is None:
        return "Not known: no node answers that has a copy of the partition."
    match leading.place:
        case Place.NO_SUCH_PARTITION:
            return "There is no such partition."
        case Place.DELETED:
            return f"Deleted: the log starts at offset {leading.log_start}. {_sentence(leading.reason)}"
        case Place.COMPACTED:
            return "Compacted away: a later record of the same key has replaced it."
        case Place.BEYOND_END:
            return f"Not written yet: the log ends at offset {leading.next_offset}."
        case Place.ABOVE_WATERMARK:
            return (
                f"No consumer can read it: it is not below the watermark ({leading.watermark}). Whether it is not"
                " written yet, or not on all in-sync replicas yet, this cluster does not tell."
            )
        case Place.UNREADABLE:
            return f"Not known: node {leading.node} cannot read its copy: {leading.reason}"
        case Place.NO_COPY:
            return "Not known: no node answers that has a copy of the partition."
    if not known.is_chronik:
        return "In the log and below the watermark, so consumers can read it."
    synced = [copy.node for copy in copies if copy.is_synced]
    on = f"synced on {len(synced)} of {len(copies)} replicas"
    if not leading.is_leader:
        return f"In the log of node {leading.node}, {on}; its leader does not answer."
    if offset >= leading.watermark:
        lacking = [copy.node for copy in copies if copy.is_in_sync and not copy.is_synced]
        waits = f"; it waits for node {_listed(lacking)}" if lacking else ""
        return f"In the log but above the watermark ({leading.watermark}), so no consumer can read it yet: {on}{waits}."
    return f"In the log and below the watermark, so consumers can read it: {on}."


def _sentence(words: str | None) -> str:
    return "" if not words else f"{words[0].upper()}{words[1:]}."


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


# --- where it went


def _deliveries(events: Sequence[AnyEvent], offset: int, members: Mapping[str, str]) -> tuple[Delivered, ...]:
    groups = {**members, **{event.client_id: event.group for event in events if isinstance(event, Committed)}}
    return tuple(
        Delivered(
            e.at_us, e.node, e.client_id, e.host, e.group or groups.get(e.client_id), e.offset, e.to_offset, e.took_us
        )
        for e in events
        if isinstance(e, FetchAnswered) and e.offset <= offset < e.to_offset
    )


def _commits(events: Sequence[AnyEvent], offset: int, committed: Mapping[str, int]) -> tuple[CommitTold, ...]:
    first: dict[str, Committed] = {}
    latest: dict[str, int] = {}
    for event in events:
        if isinstance(event, Committed):
            latest[event.group] = event.offset
            if event.offset > offset:
                first.setdefault(event.group, event)
    told = []
    for group, next_offset in sorted({**latest, **committed}.items()):
        when = first.get(group)
        told.append(
            CommitTold(
                group,
                next_offset,
                next_offset > offset,
                None if when is None else when.at_us,
                None if when is None else when.client_id,
            )
        )
    return tuple(told)


# --- what is not known


def _unknown(known: Known, place: Place, acknowledged: Acknowledged | None) -> tuple[str, ...]:
    lines: list[str] = []
    if known.silent:
        lines.append(f"what node {_listed(sorted(known.silent))} has: no answer")
    if not known.is_chronik:
        return _NOT_TOLD_ELSEWHERE
    if place in (Place.BEYOND_END, Place.NO_SUCH_PARTITION):
        return tuple(lines)  # there is nothing to be known
    if acknowledged is None:
        lines.append(f"when it was acknowledged, and with which acks: {_why(known)}")
    elif acknowledged.answered_us is None and acknowledged.acks != 0:
        lines.append("whether its producer was told: the trace has the batch, and no answer to it")
    if not known.is_traced or acknowledged is None:
        lines.append(f"all fetch answers that had it: {_why(known)}")
    return tuple(lines)


_NOT_TOLD_ELSEWHERE = (
    "when it was acknowledged, and with which acks: this cluster is no Chronik, and has no trace",
    "to which clients it was given: the same",
    "on which replicas it is synced to disk, and how far their logs go beyond the watermark: only a Chronik tells",
)


def _why(known: Known) -> str:
    if known.traced_from_us is None:
        return "the trace has nothing of this topic yet" if known.is_traced else "the topic is not traced"
    return "the trace does not reach back that far" if known.is_traced else "the topic is not traced any more"
