"""One record's whole story: looks at every node, events of all nodes and what groups have committed, put together.

Pure, and honest: whatever was not traced, or is not traced any more, is named in `unknown`, and nothing is concluded
from its absence. What no trace is needed for (which replicas have it, what is committed) is always shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chronik.trace.arrival import Acknowledged, Arrival, arrival_of, writer
from chronik.trace.assignments import Assignment, assignments_of, group_of
from chronik.trace.events import (
    AnyEvent,
    Committed,
    FetchAnswered,
    ProduceAppended,
    Replicated,
    TransactionPartitionAdded,
    WatermarkMoved,
)
from chronik.trace.inspections import BatchSeen, RecordPlace, RecordView
from chronik.trace.record_transaction import (
    TransactionTold,
    committed_words,
    is_readable_committed,
    transaction_of,
)

NO_OFFSET = -1


class KnownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was gathered of one record."""

    looks: Sequence[RecordView]  # one a node that answered
    silent: Mapping[int, str] = {}  # nodes that did not, and why
    events: Sequence[AnyEvent] = ()  # of all nodes, by time
    traced_from_us: int | None = None  # the trace reaches back to here; None: there is none
    is_traced: bool | None = False  # now; None: no node says
    is_chronik: bool = True  # else there is one look, made of what any Kafka tells its clients
    committed: Mapping[str, int] = {}  # by group, of this partition
    untold_groups: Sequence[str] = ()  # why not all that groups have committed is known
    blind_until_us: Mapping[int, int] = {}  # by node: not all that it did before then is among the events
    transactional_ids: Mapping[int, str] = {}  # by producer id, as coordinators tell


class CopyTold(msgspec.Struct, frozen=True):
    """A node's copy of it."""

    node: int
    is_leader: bool
    is_in_sync: bool
    place: RecordPlace | None  # None: the node does not answer
    is_synced: bool | None  # None: another Kafka does not tell
    replicated_us: int | None  # when the leader heard that this follower has it safely
    words: str


class RecordDelivery(msgspec.Struct, frozen=True):
    """A fetch answer that had it. A fetch does not say for which group it is: that is inferred, where exactly one group
    had given the partition to a member with this client's id and host at that time."""

    at_us: int
    node: int
    client_id: str
    host: str
    group: str | None
    from_offset: int
    to_offset: int
    took_us: int
    is_group_inferred: bool = False
    principal: str = ""  # that it was given to; "": not known


class CommitTold(msgspec.Struct, frozen=True):
    """How far a group is."""

    group: str
    offset: int  # the next one it will read
    has_it: bool | None  # it has committed this record; None: not known, only an earlier commit is
    at_us: int | None  # when, if the trace knows which commit was the first that did
    client_id: str | None = None


class RecordStory(msgspec.Struct, frozen=True):
    """All that is known of one record."""

    topic: str
    partition: int
    offset: int
    place: RecordPlace
    summary: str
    batch: BatchSeen | None
    written_by: int  # the node that led when it was written; -1: not known
    watermark: int
    last_stable_offset: int
    log_start: int
    next_offset: int
    is_below_watermark: bool | None  # None: not known, its leader does not answer
    is_below_last_stable_offset: bool | None
    visible_us: int | None  # when the watermark passed it
    acknowledged: Acknowledged | None
    replaced: tuple[str, ...]  # what once stood at this offset and was cut off when the leader changed
    copies: tuple[CopyTold, ...]
    delivered: tuple[RecordDelivery, ...]
    committed: tuple[CommitTold, ...]
    unknown: tuple[str, ...]
    transaction: TransactionTold | None = None  # it is in one, or is a marker
    is_readable_committed: bool | None = None  # whether consumers with read_committed are given it; None: not known


def tell(topic: str, partition: int, offset: int, known: KnownRecord) -> RecordStory:
    """The story of the record at an offset."""
    leading = _leading(known.looks)
    is_led = leading is not None and _is_newest_leader(leading, known)
    batch = _batch(known.looks, leading)
    events = [event for event in known.events if _is_about(event, topic, partition)]
    arrival = arrival_of(events, offset, batch)
    place = _place(leading, known)
    copies = _copies(known, leading, events, offset, arrival.written)
    led = leading if is_led else None
    is_sure = leading is not None and is_led and not _rivals(leading, known)
    transaction = transaction_of(leading, is_sure, known.events, known.transactional_ids)
    is_readable = is_readable_committed(offset, leading, is_sure, transaction)
    summary = _summary(offset, place, leading, copies, known)
    if place is RecordPlace.HERE and leading is not None and offset < leading.watermark and known.is_chronik:
        summary += committed_words(is_readable, transaction)
    return RecordStory(
        topic,
        partition,
        offset,
        place,
        summary,
        batch,
        writer(batch, arrival.written, events, leading),
        NO_OFFSET if led is None else led.watermark,
        NO_OFFSET if led is None else led.last_stable_offset,
        NO_OFFSET if led is None else led.log_start,
        NO_OFFSET if led is None else led.next_offset,
        _is_below(offset, NO_OFFSET if leading is None else leading.watermark, is_led),
        _is_below(offset, NO_OFFSET if leading is None else leading.last_stable_offset, is_led),
        # Later than the look: another story.
        _visible_us(events, offset) if leading is not None and offset < leading.watermark else None,
        arrival.acknowledged,
        arrival.replaced,
        copies,
        _deliveries(events, offset, assignments_of(known.events, topic, partition)),
        _commits(events, offset, known, arrival.written),
        _unknown(known, place, arrival, _blind_since(known, leading, events, offset, arrival.written)),
        transaction,
        is_readable,
    )


def _is_below(offset: int, bound: int, is_led: bool) -> bool | None:
    """A follower hears of its leader's watermark later: what is below its own is below the leader's."""
    return True if offset < bound else False if is_led else None


def _is_about(event: AnyEvent, topic: str, partition: int) -> bool:
    return getattr(event, "topic", None) == topic and getattr(event, "partition", None) == partition


def _leading(looks: Sequence[RecordView]) -> RecordView | None:
    """The look that counts: the leader's of the latest epoch, or else the one that knows most."""
    with_copy = [look for look in looks if look.next_offset >= 0]
    if not with_copy:
        # That there is no such partition is what a node says too that has not heard of it yet.
        return max(looks, key=lambda look: (look.place is not RecordPlace.NO_SUCH_PARTITION, -look.node), default=None)
    newest = max(look.leader_epoch for look in looks)
    return max(
        with_copy,
        key=lambda look: (
            look.is_leader and look.leader_epoch >= newest,
            look.leader_epoch,
            look.watermark,
            -look.node,
        ),
    )


def _is_newest_leader(leading: RecordView, known: KnownRecord) -> bool:
    """No node that answers knows of a later election."""
    return leading.is_leader and all(look.leader_epoch <= leading.leader_epoch for look in known.looks)


def _rivals(leading: RecordView, known: KnownRecord) -> list[int]:
    """In-sync replicas that do not answer: one of them may have been elected since."""
    return sorted(node for node in leading.in_sync if node in known.silent and node != leading.node)


def _place(leading: RecordView | None, known: KnownRecord) -> RecordPlace:
    """Where it is. That it is nowhere is said only by a leader whose place nothing else can have taken."""
    if leading is None:
        return RecordPlace.NO_COPY
    if leading.place is RecordPlace.NO_SUCH_PARTITION:
        return RecordPlace.NO_COPY if known.silent else RecordPlace.NO_SUCH_PARTITION
    if not known.is_chronik:
        return leading.place
    is_led = _is_newest_leader(leading, known)
    if leading.place is RecordPlace.BEYOND_END and (not is_led or _rivals(leading, known)):
        return RecordPlace.NOT_KNOWN
    if leading.place in (RecordPlace.DELETED, RecordPlace.COMPACTED) and not is_led:
        return RecordPlace.NOT_KNOWN
    return leading.place


def _batch(looks: Sequence[RecordView], leading: RecordView | None) -> BatchSeen | None:
    if leading is not None and leading.batch is not None:
        return leading.batch
    return next((look.batch for look in looks if look.batch is not None), None)


def _visible_us(events: Sequence[AnyEvent], offset: int) -> int | None:
    for event in events:
        if isinstance(event, WatermarkMoved) and event.is_leader and event.before <= offset < event.watermark:
            return event.at_us
    return None


# --- where it is


def _copies(
    known: KnownRecord,
    leading: RecordView | None,
    events: Sequence[AnyEvent],
    offset: int,
    written: ProduceAppended | None,
) -> tuple[CopyTold, ...]:
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
        heard = _heard_us(events, node, offset, written)
        if look is None:
            words = f"does not answer: {known.silent.get(node, 'it is not there')}"
            told.append(CopyTold(node, is_leader, node in in_sync, None, False, heard, words))
            continue
        told.append(
            CopyTold(node, is_leader, node in in_sync, look.place, look.is_synced, heard, _copy_words(look, leading))
        )
    return tuple(told)


def _heard_us(events: Sequence[AnyEvent], follower: int, offset: int, written: ProduceAppended | None) -> int | None:
    """When a leader heard that a follower has it, and not only that it has more by now. What a follower had when it was
    first heard of is not known (-1): it may have had the record for long, unless that was written while we looked."""
    since_us = 0 if written is None else written.at_us
    for event in events:
        if isinstance(event, Replicated) and event.follower == follower and event.at_us >= since_us:
            is_news = event.from_offset >= 0 or written is not None
            if is_news and event.from_offset <= offset < event.to_offset:
                return event.at_us
    return None


def _copy_elsewhere(node: int, leading: RecordView) -> CopyTold:
    """At another Kafka: what is in sync has all that is below the watermark, and no more is known."""
    is_leader, is_in_sync, place = node == leading.leader, node in leading.in_sync, leading.place
    if place is RecordPlace.HERE and (is_leader or is_in_sync):
        return CopyTold(node, is_leader, is_in_sync, place, None, None, "has it: it is below the watermark")
    if place in (RecordPlace.DELETED, RecordPlace.COMPACTED, RecordPlace.NO_RECORD) and is_leader:
        return CopyTold(node, is_leader, is_in_sync, place, None, None, _copy_words(leading, leading))
    return CopyTold(node, is_leader, is_in_sync, None, None, None, "this cluster does not tell what it has")


def _copy_words(look: RecordView, leading: RecordView | None) -> str:
    match look.place:
        case RecordPlace.HERE:
            other = None if leading is None else leading.batch
            if other is not None and look.batch is not None and _stamp(other) != _stamp(look.batch):
                return f"has another batch there, of leader epoch {look.batch.leader_epoch}: it will be cut off"
            return "has it, synced" if look.is_synced else "has it, not synced to disk yet"
        case RecordPlace.DELETED:
            return f"has deleted it: its log starts at {look.log_start}"
        case RecordPlace.COMPACTED:
            return "has compacted it away: a later record of its key is there instead"
        case RecordPlace.NO_RECORD:
            return f"has no record there: {look.reason}"
        case RecordPlace.BEYOND_END:
            return f"does not have it yet: its log ends at {look.next_offset}"
        case RecordPlace.UNREADABLE:
            return f"cannot read it: {look.reason}"
        case _:
            return "has no copy of the partition"


def _stamp(batch: BatchSeen) -> tuple[int, int]:
    return batch.leader_epoch, batch.base_offset


def _summary(
    offset: int, place: RecordPlace, leading: RecordView | None, copies: Sequence[CopyTold], known: KnownRecord
) -> str:
    if leading is None:
        return _NO_COPY
    match place:
        case RecordPlace.NOT_KNOWN:
            return _not_known(leading, known)
        case RecordPlace.NO_SUCH_PARTITION:
            return "There is no such partition."
        case RecordPlace.DELETED:
            return f"Deleted: the log starts at offset {leading.log_start}. {_sentence(leading.reason)}"
        case RecordPlace.COMPACTED:
            return "Compacted away: a later record of the same key has replaced it."
        case RecordPlace.NO_RECORD:
            return f"No record is at this offset, and there are later ones: {leading.reason}."
        case RecordPlace.BEYOND_END:
            return f"Not written yet: the log ends at offset {leading.next_offset}."
        case RecordPlace.ABOVE_WATERMARK:
            return (
                f"No consumer can read it: it is not below the watermark ({leading.watermark}). Whether it is not"
                " written yet, or not on all in-sync replicas yet, this cluster does not tell."
            )
        case RecordPlace.UNREADABLE if not known.is_chronik:
            return f"Not known: it is between the ends of the log, and could not be read: {leading.reason}."
        case RecordPlace.UNREADABLE:
            return f"Not known: node {leading.node} cannot read its copy: {leading.reason}"
        case RecordPlace.NO_COPY:
            return _NO_COPY
    return _here(offset, leading, copies, known)


_NO_COPY = "Not known: no node answers that has a copy of the partition."


def _not_known(leading: RecordView, known: KnownRecord) -> str:
    copy = f"node {leading.node} {_copy_words(leading, leading)}"
    if not _is_newest_leader(leading, known):
        return f"Not known: no leader answers. As far as is known, {copy}."
    rivals = _listed(_rivals(leading, known))
    return f"Not known: {copy}, and leads as far as it knows; node {rivals} may lead since, and does not answer."


def _here(offset: int, leading: RecordView, copies: Sequence[CopyTold], known: KnownRecord) -> str:
    if not known.is_chronik:
        but = "so consumers can read it" if leading.reason is None else f"but {leading.reason}"
        return f"In the log and below the watermark, {but}."
    synced = [copy.node for copy in copies if copy.is_synced]
    on = f"synced on {len(synced)} of {len(copies)} replicas"
    if not _is_newest_leader(leading, known):
        return f"In the log of node {leading.node}, {on}; its leader does not answer."
    if offset >= leading.watermark:
        lacking = [copy.node for copy in copies if copy.is_in_sync and not copy.is_synced]
        waits = f"; it waits for node {_listed(lacking)}" if lacking else ""
        there = f" of node {leading.node}" if _rivals(leading, known) else ""
        return (
            f"In the log but above the watermark ({leading.watermark}){there}, so no consumer can read it"
            f"{' there' if there else ''} yet: {on}{waits}."
        )
    return f"In the log and below the watermark, so consumers can read it: {on}."


def _sentence(words: str | None) -> str:
    return "" if not words else f"{words[0].upper()}{words[1:]}."


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


# --- where it went


def _deliveries(
    events: Sequence[AnyEvent], offset: int, assignments: Sequence[Assignment]
) -> tuple[RecordDelivery, ...]:
    told = []
    for e in events:
        if isinstance(e, FetchAnswered) and e.offset <= offset < e.to_offset:
            group = group_of(assignments, e.client_id, e.host, e.at_us)
            told.append(
                RecordDelivery(
                    e.at_us,
                    e.node,
                    e.client_id,
                    e.host,
                    group,
                    e.offset,
                    e.to_offset,
                    e.took_us,
                    group is not None,
                    e.principal,
                )
            )
    return tuple(told)


def _commits(
    events: Sequence[AnyEvent], offset: int, known: KnownRecord, written: ProduceAppended | None
) -> tuple[CommitTold, ...]:
    commits: dict[str, list[Committed]] = {}
    for event in events:
        if isinstance(event, Committed):
            commits.setdefault(event.group, []).append(event)
    latest = {group: told[-1].offset for group, told in commits.items()}
    told = []
    for group, next_offset in sorted({**latest, **known.committed}.items()):
        when = _first_commit(commits.get(group, []), offset, known.blind_until_us, written)
        told.append(
            CommitTold(
                group,
                next_offset,
                # What is only in the trace may have moved on since.
                True if next_offset > offset else False if group in known.committed else None,
                None if when is None else when.at_us,
                None if when is None else when.client_id,
            )
        )
    return tuple(told)


def _first_commit(
    commits: Sequence[Committed], offset: int, blind_until_us: Mapping[int, int], written: ProduceAppended | None
) -> Committed | None:
    """A group's first commit of the record. The first that is known need not be that: only where it is also known that
    the group was not there yet, and nothing is missing in between."""
    before_us = None if written is None else written.at_us
    for commit in commits:
        if commit.offset > offset:
            is_first = before_us is not None and blind_until_us.get(commit.node, 0) <= before_us
            return commit if is_first else None
        before_us = commit.at_us
    return None


# --- what is not known


def _blind_since(
    known: KnownRecord,
    leading: RecordView | None,
    events: Iterable[AnyEvent],
    offset: int,
    written: ProduceAppended | None,
) -> list[int]:
    """Nodes that may have served it without being known to: of what they did since it was written, something
    is missing."""
    if leading is None or written is None or offset >= leading.watermark:
        return []
    # A node that has no copy any more may have had one: then there is an event of it.
    coordinators = Committed | TransactionPartitionAdded
    could = set(leading.replicas) | {event.node for event in events if not isinstance(event, coordinators)}
    until_us = known.blind_until_us
    return sorted(node for node in could if node in known.silent or until_us.get(node, 0) > written.at_us)


def _unknown(known: KnownRecord, place: RecordPlace, arrival: Arrival, blind: Sequence[int]) -> tuple[str, ...]:
    lines: list[str] = []
    if known.silent:
        lines.append(f"what node {_listed(sorted(known.silent))} has: no answer")
    lines += (f"what all groups have committed: {reason}" for reason in known.untold_groups)
    if not known.is_chronik:
        return (*lines, *_NOT_TOLD_ELSEWHERE)
    if place in (RecordPlace.BEYOND_END, RecordPlace.NO_SUCH_PARTITION):
        return tuple(lines)  # there is nothing to be known
    told = arrival.acknowledged
    if told is None:
        lines.append(f"when it was acknowledged, and with which acks: {_why(known)}")
    elif told.answered_us is None and told.acks != 0:
        lines.append("whether its producer was answered: the trace has the batch, and no answer to it")
    if told is not None and arrival.written is None:
        lines.append("when it was written, and whether that was answered: the trace has only a retry")
    if not known.is_traced or arrival.written is None:  # also where no node says whether it is
        lines.append(f"all fetch answers that had it: {_why(known)}")
    elif blind:
        lines.append(
            f"all fetch answers that had it: not all that node {_listed(blind)} did after it was written is surely in"
            " the trace"
        )
    return tuple(lines)


_NOT_TOLD_ELSEWHERE = (
    "when it was acknowledged, and with which acks: this cluster is no Chronik, and has no trace",
    "to which clients it was given: the same",
    "on which replicas it is synced to disk, and how far their logs go beyond the watermark: only a Chronik tells",
)


def _why(known: KnownRecord) -> str:
    if known.is_traced is None:
        return "no node says whether the topic is traced"
    if known.traced_from_us is None and known.is_traced and (known.silent or known.blind_until_us):
        return "not all nodes tell what they traced"
    if known.traced_from_us is None:
        return "the trace has nothing of this topic yet" if known.is_traced else "the topic is not traced"
    return "the trace does not reach back that far" if known.is_traced else "the topic is not traced any more"
