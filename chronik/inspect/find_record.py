"""Finds the offset of a record that is known otherwise: by its key, or by the number its producer gave it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from chronik.client.admin import ClusterAdmin, TopicState
from chronik.client.connecting import client_settings, plain_errors
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import NotChronik, inspect_as, states
from chronik.client.request import Address, NoAnswer
from chronik.inspect.reporting import Reporter
from chronik.trace.inspections import FIND, FindView, RecordPlace, StateView

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_MAX = 5_000
POLL_S = 0.5
QUIET_S = 10.0
LOOK_TIMEOUT_S = 30.0


class At(NamedTuple):
    partition: int
    offset: int


class SearchResult(NamedTuple):
    """`unread` are partitions that could not be looked through, with the reason: what is not found may be there."""

    places: list[At]
    unread: dict[int, str]

    @property
    def unread_words(self) -> str:
        by_reason: dict[str, list[int]] = {}
        for number, reason in sorted(self.unread.items()):
            by_reason.setdefault(reason, []).append(number)
        return "; ".join(
            f"partition {', '.join(map(str, numbers))} cannot be read now ({reason})"
            for reason, numbers in by_reason.items()
        )

    def refuse_nothing(self, topic: str, what: str) -> None:
        """Raises ChronikError where nothing was found: there is nothing, or it is not known whether there is."""
        if self.places:
            return
        if self.unread:
            raise ChronikError(
                f"whether a record in {topic} has {what} is not known: {self.unread_words}",
                f"see `chronik topic describe {topic}` for who should lead it, and ask again when it is led",
            )
        raise ChronikError(f"no record in {topic} has {what}", "it was never accepted, or it has been deleted since")


def by_key(
    cluster: ClusterAdmin, topic: TopicState, partitions: list[int], key: bytes, newest: int, reporter: Reporter
) -> SearchResult:
    """The newest records with this key, by their time, newest first. The topic is read from its beginning to its end,
    as no log has an index of keys."""
    begin, left, unread = _to_read(cluster, topic, partitions)
    if not left:
        return SearchResult([], unread)
    from confluent_kafka import Consumer, TopicPartition

    total = sum(end - begin[number] for number, end in left.items())
    found: dict[int, deque[tuple[int, int, int]]] = {number: deque(maxlen=newest) for number in left}
    settings = client_settings(cluster.bootstrap) | {"group.id": "chronik-cli", "enable.auto.commit": False}
    with plain_errors(cluster.bootstrap):
        consumer = Consumer(settings | {"enable.partition.eof": True, "fetch.wait.max.ms": 100})
    try:
        consumer.assign([TopicPartition(topic.name, number, begin[number]) for number in left])
        with reporter.progress("reading the topic", total, "messages") as step:
            for messages in until_read(consumer, cluster.bootstrap, left):
                step(len(messages))
                for message in messages:
                    if message.error() is None and message.key() == key:
                        number = message.partition() or 0
                        found[number].append((message.timestamp()[1], number, message.offset() or 0))
    finally:
        consumer.close()
    hits = sorted((hit for hits in found.values() for hit in hits), reverse=True)
    unread |= dict.fromkeys(left, "it gives nothing more before its end")
    return SearchResult([At(number, offset) for _, number, offset in hits[:newest]], unread)


def _to_read(
    cluster: ClusterAdmin, topic: TopicState, partitions: list[int]
) -> tuple[dict[int, int], dict[int, int], dict[int, str]]:
    """Where each partition begins; where those end that have something; and those of which no leader tells it."""
    led = {part.partition for part in topic.partitions if part.leader is not None}
    places = [(topic.name, number) for number in partitions if number in led]
    starts, ends = cluster.start_offsets(places), cluster.end_offsets(places)
    begin: dict[int, int] = {}
    left: dict[int, int] = {}
    unread: dict[int, str] = {}
    for number in partitions:
        start, end = starts.get((topic.name, number)), ends.get((topic.name, number))
        if start is None or end is None:
            unread[number] = "no leader answers"
        elif end > start:
            begin[number], left[number] = start, end
    return begin, left, unread


def until_read(consumer: Consumer, bootstrap: str, left: dict[int, int]) -> Iterator[list[Message]]:
    """Messages until each of these partitions has been read up to the offset it had. Those that give nothing more for
    long are left in the end."""
    from confluent_kafka import KafkaError

    heard_at = time.monotonic()
    while left and time.monotonic() - heard_at <= QUIET_S:
        with plain_errors(bootstrap):
            messages = consumer.consume(BATCH_MAX, POLL_S)
        heard_at = time.monotonic() if messages else heard_at
        for message in messages:
            number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
            is_at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            # Of other errors, such as that a node is gone, nothing has been read, though they name partition 0. An end
            # below the one that was told is a new leader's, which for a moment knows of less than the last one.
            read_to = offset if is_at_end else offset + 1 if error is None else 0
            if number in left and read_to >= left[number]:
                del left[number]
        yield messages


def by_sequence(
    addresses: list[Address], topic: TopicState, partitions: list[int], producer_id: int, sequence: int
) -> SearchResult:
    """Where a producer's sequence number is, in every partition: it counts in each. Newest first."""
    try:
        seen = states(addresses, LOOK_TIMEOUT_S, topics=[topic.name])
    except NotChronik as problem:
        raise ChronikError(
            f"only Chronik can look for producers' numbers: {problem}", "give an offset, or --key"
        ) from None
    except NoAnswer as problem:
        raise ChronikError(str(problem), "check --bootstrap") from None
    leaders, others = holders(seen.values(), topic.name)

    def look(holder: int, number: int, from_offset: int) -> FindView:
        return _look(
            addresses, node=holder, topic=topic.name, partition=number, producer_id=producer_id, sequence=sequence,
            from_offset=from_offset,
        )  # fmt: skip

    return look_through(partitions, leaders, others, look)


def holders(seen: Iterable[StateView], topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """By partition, the node that leads it, and one that has another copy."""
    leaders: dict[int, int] = {}
    others: dict[int, int] = {}
    for look in seen:
        for copy in look.copies:
            if copy.topic == topic and copy.offline is None:
                (leaders if copy.is_leader else others)[copy.partition] = look.node
        for closed in look.unopened:  # it is opened at the first request for it
            if closed.topic == topic and closed.leader == look.node:
                leaders[closed.partition] = look.node
    return leaders, others


def look_through(
    partitions: Iterable[int],
    leaders: Mapping[int, int],
    others: Mapping[int, int],
    look: Callable[[int, int, int], FindView],
) -> SearchResult:
    """Each partition at its leader; where none answers, at another who has a copy: that may end earlier. `look` is
    given node, partition and offset."""
    found: list[At] = []
    unread: dict[int, str] = {}
    for number in partitions:
        holder = leaders.get(number, others.get(number))
        if holder is None:
            unread[number] = "nobody answers who has a copy"
            continue
        try:
            hits = _found_by(holder, number, look)
        except NoAnswer as problem:
            unread[number] = str(problem)
            continue
        found += hits
        if number not in leaders and not hits:
            unread[number] = f"no leader answers, and node {holder} may not have all of it"
    return SearchResult(found, unread)


def _found_by(holder: int, partition: int, look: Callable[[int, int, int], FindView]) -> list[At]:
    """Raises NoAnswer."""
    found: list[At] = []
    from_offset = 0
    while from_offset >= 0:
        told = look(holder, partition, from_offset)
        if told.place is not RecordPlace.HERE:
            raise NoAnswer(f"node {holder} cannot look through it: {told.place}")
        found += (At(partition, each.offset) for each in told.found)
        from_offset = told.go_on_from
    return found[::-1]


def _look(addresses: list[Address], **arguments: object) -> FindView:
    """Raises NoAnswer."""
    problem = NoAnswer("there is no address to look at")
    for address in addresses:
        try:
            return inspect_as(FindView, address, FIND, LOOK_TIMEOUT_S, **arguments)
        except NoAnswer as met:
            problem = met
    raise problem
