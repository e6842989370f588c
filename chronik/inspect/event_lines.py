"""An event of the trace as one line for people: when, on which node, what happened, to whom."""

from __future__ import annotations

import datetime
from functools import singledispatch
from typing import NamedTuple

from chronik.client.words import byte_size, counted
from chronik.trace import events as kinds
from chronik.trace.events import AnyEvent

PRODUCING, CONSUMING, CLUSTER, GROUPS, TRANSACTIONS = "green", "cyan", "yellow", "magenta", "blue"
TROUBLE, STANDING = "bold red", "dim"
ACKS = {-1: "all", 0: "none", 1: "leader"}


class Line(NamedTuple):
    """What happened, and the style (rich's) in which that is shown."""

    subject: str  # the partition, topic or group
    verb: str
    words: str
    style: str


def kind_of(event: AnyEvent) -> str:
    """Its name in JSON, as `--kind` takes it."""
    return str(event.__struct_config__.tag)


KINDS = tuple(sorted(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__))
STATE_KINDS = ("group_seen", "partition_seen", "transaction_seen")


def clock_time(at_us: int) -> str:
    """The time of day here, to the microsecond."""
    moment = datetime.datetime.fromtimestamp(at_us / 1_000_000)
    return moment.strftime("%H:%M:%S.%f")


@singledispatch
def line_of(event: AnyEvent) -> Line:
    """What happened, in words."""
    raise TypeError(f"no event: {event!r}")


# --- producing


@line_of.register
def _(event: kinds.ProduceAppended) -> Line:
    words = f"{_range(event.base_offset, event.to_offset)}, {byte_size(event.size_bytes)}, acks {_acks(event.acks)}"
    if event.producer_id >= 0:
        words += f", producer {event.producer_id}.{event.producer_epoch} from sequence {event.base_sequence}"
    verb = "duplicate" if event.is_duplicate else "appended"
    return Line(_place(event), verb, f"{words}, by {_client(event)}", PRODUCING)


@line_of.register
def _(event: kinds.ProduceAnswered) -> Line:
    moved = (
        f"watermark {event.watermark_before} -> {event.watermark}"
        if event.watermark != event.watermark_before
        else f"watermark still {event.watermark}"
    )
    words = f"{_range(event.base_offset, event.to_offset)}, acks {_acks(event.acks)}, {moved}"
    after = f"in sync {_ids(event.in_sync)}, after {_took(event.took_us)}, to {_client(event)}"
    return Line(_place(event), "answered", f"{words}, {after}", PRODUCING)


@line_of.register
def _(event: kinds.Replicated) -> Line:
    words = f"{_range(event.from_offset, event.to_offset)} by node {event.follower}"
    return Line(_place(event), "replicated", words, PRODUCING)


@line_of.register
def _(event: kinds.WatermarkMoved) -> Line:
    role = "leader" if event.is_leader else "follower"
    words = f"{event.before} -> {event.watermark}, next offset {event.next_offset} ({role})"
    return Line(_place(event), "watermark", words, PRODUCING)


# --- consuming


@line_of.register
def _(event: kinds.FetchWaits) -> Line:
    words = f"for offset {event.offset}, watermark {event.watermark}, next offset {event.next_offset}"
    limits = f"up to {event.max_wait_ms} ms for {byte_size(event.min_bytes)}"
    return Line(_place(event), "fetch waits", f"{words}, {limits}, by {_reader(event)}", CONSUMING)


@line_of.register
def _(event: kinds.FetchAnswered) -> Line:
    if event.to_offset == event.offset:
        given = f"nothing from {event.offset} on"
    else:
        given = f"{_range(event.offset, event.to_offset)}, {byte_size(event.size_bytes)}"
    words = f"{given}, watermark {event.watermark}, after {_took(event.took_us)}"
    return Line(_place(event), "fetched", f"{words}, by {_reader(event)}", CONSUMING)


@line_of.register
def _(event: kinds.FetchDropped) -> Line:
    words = f"from {event.offset} on, after {_took(event.waited_us)} of {event.max_wait_ms} ms, by {_reader(event)}"
    return Line(_place(event), "hung up", words, CONSUMING)


# --- refusals, and what Metadata responses said


@line_of.register
def _(event: kinds.RefusedEvent) -> Line:
    words = f"{event.api}: {event.error}"
    if event.reason:
        words += f", {event.reason}"
    if event.leader >= 0:
        words += f", node {event.leader} leads"
    subject = event.topic or "-"
    if event.topic is not None and event.partition >= 0:
        subject = f"{event.topic}-{event.partition}"
    return Line(subject, "refused", f"{words}, to {_client(event)}", TROUBLE)


@line_of.register
def _(event: kinds.MetadataTold) -> Line:
    words = f"nodes {_ids(event.brokers)}, leaders {_ids(event.leaders)}, to {_client(event)}"
    is_led = -1 not in event.leaders
    return Line(event.topic, "metadata", words, CLUSTER if is_led else TROUBLE)


# --- leaders and in-sync sets


@line_of.register
def _(event: kinds.LeaderChanged) -> Line:
    words = f"{_node(event.leader_before)} -> {_node(event.leader)}, epoch {event.leader_epoch}"
    return Line(_place(event), "leader", words, CLUSTER if event.leader >= 0 else TROUBLE)


@line_of.register
def _(event: kinds.InSyncChanged) -> Line:
    style = TROUBLE if len(event.in_sync) < len(event.before) else CLUSTER
    return Line(_place(event), "in sync", f"{_ids(event.before)} -> {_ids(event.in_sync)}", style)


# --- groups


@line_of.register
def _(event: kinds.GroupJoined) -> Line:
    return Line(event.group, "joins", f"{event.member_id}, {_client(event)}", GROUPS)


@line_of.register
def _(event: kinds.GroupLeft) -> Line:
    style = GROUPS if event.reason == "left" else TROUBLE
    return Line(event.group, event.reason, f"{event.member_id}, {_client(event)}", style)


@line_of.register
def _(event: kinds.GroupChanged) -> Line:
    words = f"{event.state_before} -> {event.state}, generation {event.generation}, {counted(event.members, 'member')}"
    return Line(event.group, "group", words, GROUPS)


@line_of.register
def _(event: kinds.Committed) -> Line:
    by = f"the transaction of producer {event.producer_id}" if event.producer_id >= 0 else _client(event)
    return Line(_place(event), "committed", f"all below {event.offset} by group {event.group}, {by}", GROUPS)


@line_of.register
def _(event: kinds.OffsetPending) -> Line:
    words = f"all below {event.offset} by group {event.group}, if the transaction of producer {event.producer_id} does"
    return Line(_place(event), "commits", words, GROUPS)


@line_of.register
def _(event: kinds.OffsetDropped) -> Line:
    words = f"offset {event.offset} of group {event.group}, from the transaction of producer {event.producer_id}"
    return Line(_place(event), event.reason, words, GROUPS)


# --- transactions


@line_of.register
def _(event: kinds.TransactionBegun) -> Line:
    return Line(event.transactional_id, "begins", f"{_producer(event)}, for {event.timeout_ms} ms", TRANSACTIONS)


@line_of.register
def _(event: kinds.TransactionPartitionAdded) -> Line:
    return Line(_place(event), "added", f"to {event.transactional_id}, {_producer(event)}", TRANSACTIONS)


@line_of.register
def _(event: kinds.TransactionPrepared) -> Line:
    verb = "commits" if event.is_commit else "aborts"
    words = (
        f"{_producer(event)}, by {event.reason}, {counted(event.partitions, 'partition')}, open for {event.open_ms} ms"
    )
    return Line(event.transactional_id, verb, words, TRANSACTIONS if event.reason == "client" else TROUBLE)


@line_of.register
def _(event: kinds.TransactionMarked) -> Line:
    marker = "commit" if event.is_commit else "abort"
    words = f"{marker} marker at offset {event.offset}, {_producer(event)}, coordinator epoch {event.coordinator_epoch}"
    return Line(_place(event), "marked", words, TRANSACTIONS)


@line_of.register
def _(event: kinds.TransactionCompleted) -> Line:
    verb = "committed" if event.is_commit else "aborted"
    words = f"{_producer(event)}, all markers after {event.took_ms} ms"
    return Line(event.transactional_id, verb, words, TRANSACTIONS)


# --- how things stand


@line_of.register
def _(event: kinds.PartitionSeen) -> Line:
    gap = event.next_offset - event.watermark
    words = f"start {event.log_start}, watermark {event.watermark}, next {event.next_offset}, gap {gap}"
    late = [f"node {each.node} by {each.lag_records}" for each in event.followers if each.lag_records > 0]
    words += f", in sync {_ids(event.in_sync)}" + (f", behind: {', '.join(late)}" if late else "")
    return Line(_place(event), "stands", words, STANDING)


@line_of.register
def _(event: kinds.GroupSeen) -> Line:
    words = f"{event.state}, generation {event.generation}, {counted(len(event.members), 'member')}"
    return Line(event.group, "stands", words, STANDING)


@line_of.register
def _(event: kinds.TransactionSeen) -> Line:
    words = (
        f"{event.state}, {_producer(event)}, open for {event.open_ms} ms, {counted(len(event.partitions), 'partition')}"
    )
    words += f", no marker in {', '.join(f'{each.topic}-{each.partition}' for each in event.missing)}" * bool(
        event.missing
    )
    return Line(event.transactional_id, "stands", words, STANDING)


@line_of.register
def _(event: kinds.TraceBegan) -> Line:
    return Line("-", "trace", "begins here", STANDING)


@line_of.register
def _(event: kinds.EventsLost) -> Line:
    return Line("-", "lost", f"{counted(event.count, 'event')} did not make it into the trace topic", TROUBLE)


# --- words


def _place(event: AnyEvent) -> str:
    return f"{getattr(event, 'topic', '-')}-{getattr(event, 'partition', '')}"


def _range(from_offset: int, to_offset: int) -> str:
    """Offsets as people count them: the last one is meant too."""
    if to_offset - from_offset == 1:
        return f"offset {from_offset}"
    return f"offsets {from_offset} to {to_offset - 1}" if to_offset > from_offset else f"nothing at {from_offset}"


def _acks(acks: int) -> str:
    return ACKS.get(acks, str(acks))


def _ids(ids: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def _node(node_id: int) -> str:
    return "no node" if node_id < 0 else f"node {node_id}"


def _took(took_us: int) -> str:
    return f"{took_us / 1000:.1f} ms" if took_us < 1_000_000 else f"{took_us / 1_000_000:.1f} s"


def _client(event: AnyEvent) -> str:
    return f"{getattr(event, 'client_id', '') or 'a client'} at {getattr(event, 'host', '') or 'an unknown place'}"


def _producer(event: AnyEvent) -> str:
    return f"producer {getattr(event, 'producer_id', -1)}.{getattr(event, 'producer_epoch', -1)}"


def _reader(event: kinds.FetchWaits | kinds.FetchAnswered | kinds.FetchDropped) -> str:
    return _client(event) + (f" (group {event.group})" if event.group else "")
