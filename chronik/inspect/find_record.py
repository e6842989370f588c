"""Finds the offset of a record that is known otherwise: by its key, or by the number its producer gave it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.client.admin import ClusterAdmin, TopicState
from chronik.client.connecting import client_settings, parse_addresses, plain_errors
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import Inspections, NotChronik, inspect_node, states
from chronik.client.request import Address, NoAnswer
from chronik.inspect.reporting import Reporter
from chronik.trace.inspections import FIND, FindView, RecordPlace, StateView
from chronik.trace.leading import sure_leaders

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_MAX = 5_000
POLL_S = 0.5
QUIET_S = 10.0
LOOK_TIMEOUT_S = 30.0  # a look through a whole log
STATES_TIMEOUT_S = 5.0


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
    begin, left, unread = to_read(cluster, topic, partitions)
    reached = reached_ends(parse_addresses(cluster.bootstrap), topic.name)
    for number in list(left):
        if isinstance(known := reached(number), str):
            unread[number] = known
            del left[number]
        else:
            left[number] = max(left[number], known)
    if not left:
        return SearchResult([], unread)
    from confluent_kafka import Consumer, TopicPartition

    total = sum(end - begin[number] for number, end in left.items())
    found: dict[int, deque[tuple[int, int, int]]] = {number: deque(maxlen=newest) for number in left}
    settings = client_settings(cluster.bootstrap) | {"group.id": "chronik-cli", "enable.auto.commit": False}
    # Where the reported beginning is gone by now, or is another node's, reading begins where the log does.
    settings |= {"enable.partition.eof": True, "fetch.wait.max.ms": 100, "auto.offset.reset": "earliest"}
    with plain_errors(cluster.bootstrap):
        consumer = Consumer(settings)
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
    hits = sorted({hit for hits in found.values() for hit in hits}, reverse=True)
    unread |= dict.fromkeys(left, "it gives nothing more before its end")
    return SearchResult([At(number, offset) for _, number, offset in hits[:newest]], unread)


def to_read(
    cluster: ClusterAdmin, topic: TopicState, partitions: list[int]
) -> tuple[dict[int, int], dict[int, int], dict[int, str]]:
    """Where each partition begins; up to where it is to be read at least; and those of which no leader tells it. One
    that is reported to be empty is read, too: the node that said so may lead no more, and a fetch is answered by the
    leader."""
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
        else:
            begin[number], left[number] = start, max(end, start)
    return begin, left, unread


def until_read(
    consumer: Consumer, bootstrap: str, left: dict[int, int], quiet_s: float = QUIET_S
) -> Iterator[list[Message]]:
    """Messages until each of these partitions has been read up to the offset it had. Those that give nothing more for
    long are left in the end."""
    from confluent_kafka import KafkaError

    heard_at = time.monotonic()
    while left and time.monotonic() - heard_at <= quiet_s:
        with plain_errors(bootstrap):
            messages = consumer.consume(BATCH_MAX, POLL_S)
        for message in messages:
            number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
            if number in left and error is None:  # of those that are read more may come for as long as anyone writes
                heard_at = time.monotonic()
            is_at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            # Of other errors, such as that a node is gone, nothing has been read, though they name partition 0. An end
            # below the one that was reported is a new leader's, which for a moment knows of less than the last one.
            read_to = offset if is_at_end else offset + 1 if error is None else -1
            if number in left and read_to >= left[number]:
                del left[number]
        yield messages


def by_sequence(
    addresses: list[Address], topic: TopicState, partitions: list[int], producer_id: int, sequence: int
) -> SearchResult:
    """Where a producer's sequence number is, in every partition: it counts in each. Newest first."""
    try:
        seen = states(addresses, STATES_TIMEOUT_S, topics=[topic.name])
    except NotChronik as problem:
        raise ChronikError(
            f"only Chronik can look for producers' numbers: {problem}", "give an offset, or --key"
        ) from None
    except NoAnswer as problem:
        raise ChronikError(str(problem), "check --bootstrap") from None
    leaders, others = holders(seen, topic.name)

    def look(holder: int, number: int, from_offset: int) -> FindView:
        return _look(
            addresses, node=holder, topic=topic.name, partition=number, producer_id=producer_id, sequence=sequence,
            from_offset=from_offset,
        )  # fmt: skip

    return look_through(partitions, leaders, others, look)


def reached_ends(addresses: list[Address], topic: str) -> Callable[[int], int | str]:
    """By partition, up to where it must be read for all that consumers can be given, as far as nodes know; or why that
    is not known. Another Kafka does not say: then what clients are given has to do."""
    try:
        seen = states(addresses, STATES_TIMEOUT_S, topics=[topic])
    except NotChronik:
        return lambda number: 0
    except NoAnswer as problem:
        reason = f"whether the node that gives it leads it is not known: {problem}"
        return lambda number: reason
    return lambda number: reached_end(seen, topic, number)


def reached_end(seen: Inspections[StateView], topic: str, number: int) -> int | str:
    """The highest watermark that a node tells of, where it is sure which node leads; else why it is not."""
    place = (topic, number)
    copies = [copy for look in seen.values() for copy in look.copies if (copy.topic, copy.partition) == place]
    end = max((copy.watermark for copy in copies), default=0)
    if place in sure_leaders(seen, seen.silent):
        return end
    closed = [each for look in seen.values() for each in look.unopened if (each.topic, each.partition) == place]
    newest = max([*(each.leader_epoch for each in copies), *(each.leader_epoch for each in closed)], default=-1)
    for each in closed:  # its leader has not opened it since it started, and has nothing to tell yet
        is_sure = not any(node in seen.silent for node in each.in_sync)
        if each.leader >= 0 and each.leader_epoch >= newest and is_sure:
            return end
    return "no node answers that surely leads it"


def holders(seen: Inspections[StateView], topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """By partition, the node that surely leads it, and one that has another copy."""
    leaders: dict[int, int] = {}
    others: dict[int, int] = {}
    sure = sure_leaders(seen, seen.silent)
    for look in seen.values():
        for copy in look.copies:
            if copy.topic == topic and copy.offline is None:
                led = sure.get((topic, copy.partition))
                is_leader = led is not None and led.node == look.node
                (leaders if is_leader else others)[copy.partition] = look.node
        for closed in look.unopened:  # it is opened at the first request for it
            if closed.topic == topic and closed.leader == look.node:
                is_sure = isinstance(reached_end(seen, topic, closed.partition), int)
                (leaders if is_sure else others)[closed.partition] = look.node
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
            unread[number] = "nothing answers who has a copy"
            continue
        try:
            hits = _found_by(holder, number, look)
        except NoAnswer as problem:
            unread[number] = str(problem)
            continue
        found += hits
        if number not in leaders:
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


def _look(addresses: list[Address], **arguments: Any) -> FindView:
    """Raises NoAnswer."""
    problem = NoAnswer("there is no address to look at")
    for address in addresses:
        try:
            return inspect_node(FindView, address, FIND, LOOK_TIMEOUT_S, **arguments)
        except NoAnswer as met:
            problem = met
    raise problem
