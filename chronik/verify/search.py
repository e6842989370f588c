"""Where the missing messages are: the log read once more by another client, the nodes asked, the trace looked through.

Against another Kafka than ours there are no nodes to ask and no trace: then it reports what it can know without them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronik.client.inspect_request import inspect_everywhere
from chronik.client.request import Address, NoAnswer
from chronik.trace.events import AnyEvent
from chronik.trace.inspections import RECORD, RecordView
from chronik.verify.clients.protocol import ConsumerFailed, Receiving, VerifyClient
from chronik.verify.cluster import VerifyCluster
from chronik.verify.fates import MissingSearch, served_to
from chronik.verify.ledger import LedgerPlace
from chronik.verify.messages import Messages

QUIET_S = 10.0
POLL_S = 1.0
SETTLE_S = 1.0
LOOK_S = 5.0
POLL_RECORDS = 5_000


@dataclass(frozen=True)
class Scene:
    """Where it happened."""

    topic: str
    starts: Mapping[int, int]
    consumer_id: str
    """The client id under which the run's consumer was served."""
    producer_id: str
    """And its producer."""


def search(
    cluster: VerifyCluster,
    scene: Scene,
    reader: VerifyClient,
    messages: Messages,
    wanted: Sequence[int],
    events: Sequence[AnyEvent] | None,
    quiet_s: float = QUIET_S,
) -> MissingSearch:
    """Looks for these numbers. `events` are what was traced, None when nothing was."""
    found = MissingSearch(watermarks=_settled_ends(cluster, scene, 3 * quiet_s))
    if cluster.is_chronik:
        led = cluster.led(scene.topic, found.watermarks, LOOK_S)
        found.next_offsets = {partition: next_offset for partition, (_, next_offset) in led.items()}
        # The leader that Metadata names may lead no more, and know less: the leader's own word counts, where it is
        # sure.
        told = found.watermarks
        found.watermarks = {
            partition: max(watermark, told.get(partition, 0)) for partition, (watermark, _) in led.items()
        }
    if events is not None:
        found.served = served_to(scene.consumer_id, scene.producer_id, scene.topic, events)
    _read(found, scene, reader, messages, set(wanted), quiet_s)
    return found


def _settled_ends(cluster: VerifyCluster, scene: Scene, patience_s: float) -> dict[int, int]:
    """The watermarks as soon as they stay where they are: what nothing waited for may still be on its way."""
    deadline = time.monotonic() + patience_s
    ends: dict[int, int] = {}
    while True:
        before, ends = ends, cluster.ends(scene.topic, len(scene.starts))
        if (before == ends and len(ends) == len(scene.starts)) or time.monotonic() > deadline:
            return ends
        time.sleep(min(SETTLE_S, patience_s))


def _read(
    found: MissingSearch, scene: Scene, reader: VerifyClient, messages: Messages, wanted: set[int], quiet_s: float
) -> None:
    """Everything below the watermarks, by another client without a group; until it gets nothing more."""
    found.read_to.update(scene.starts)
    order = Receiving(scene.topic, f"{scene.consumer_id}-search", None, scene.starts, POLL_RECORDS)
    try:
        consumer = reader.consumer(order)
    except ConsumerFailed:
        return
    try:
        last_s = time.monotonic()
        while not all(map(found.is_read_whole, scene.starts)):
            records = consumer.poll(POLL_S)
            # Of partitions that have been read more may come for as long as others write to the topic.
            is_news = any(not found.is_read_whole(record.partition) for record in records)
            # Given up only after a poll that gave nothing: on a busy machine this process may not have asked for long.
            if not is_news and time.monotonic() - last_s >= quiet_s:
                break
            last_s = time.monotonic() if is_news else last_s
            for record in records:
                found.read_to[record.partition] = record.offset + 1
                number = messages.number(record.value)
                if number in wanted:
                    found.places.setdefault(number, LedgerPlace(record.partition, record.offset))
    except ConsumerFailed:
        pass  # `read_to` says how far it got
    finally:
        consumer.close()


def told_of(addresses: Sequence[Address], topic: str, place: LedgerPlace, is_lost: bool) -> list[str]:
    """What each node says of the offset of a message, in words; nothing where they do not answer."""
    arguments = {"topic": topic, "partition": place.partition, "offset": place.offset}
    try:
        looks = inspect_everywhere(RecordView, addresses, RECORD, LOOK_S, lambda node_id: arguments)
    except NoAnswer:
        return []
    return [f"node {node_id}: {_in_words(seen, is_lost)}" for node_id, seen in looks.items()]


def _in_words(seen: RecordView, is_lost: bool) -> str:
    words = str(seen.place)
    if seen.batch is not None:
        words = f"another message is there, of leader epoch {seen.batch.leader_epoch}" if is_lost else "it is there"
    if seen.reason:
        words += f" ({seen.reason})"
    if seen.next_offset >= 0:
        words += f"; its log has {seen.log_start} to {seen.next_offset}, its watermark is {seen.watermark}"
    return words
