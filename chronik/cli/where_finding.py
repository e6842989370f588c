"""Finds the offset of a record that is known otherwise: by its key, or by the number its producer gave it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from chronik.cli.connect import client_settings, plain_errors
from chronik.cli.errors import CliError
from chronik.cli.output import progress
from chronik.cli.questions import Cluster, TopicState
from chronik.shell.asking import Address, NoAnswer
from chronik.shell.looking import NotChronik, look_as, states
from chronik.trace.looks import FIND, FindLook, Place

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_MAX = 5_000
POLL_S = 0.5
QUIET_S = 10.0
LOOK_TIMEOUT_S = 30.0


class At(NamedTuple):
    partition: int
    offset: int


def by_key(
    cluster: Cluster, topic: TopicState, partitions: list[int], key: bytes, newest: int, is_quiet: bool
) -> list[At]:
    """The newest records with this key, by their time, newest first. The topic is read from its beginning to its end,
    as no log has an index of keys."""
    from confluent_kafka import Consumer, TopicPartition

    places = [(topic.name, number) for number in partitions]
    starts, ends = cluster.start_offsets(places), cluster.end_offsets(places)
    begin = {number: starts[topic.name, number] or 0 for number in partitions}
    left = {number: end for number in partitions if (end := ends[topic.name, number] or 0) > begin[number]}
    total = sum(end - begin[number] for number, end in left.items())
    found: dict[int, deque[tuple[int, int, int]]] = {number: deque(maxlen=newest) for number in left}
    settings = client_settings(cluster.bootstrap) | {"group.id": "chronik-cli", "enable.auto.commit": False}
    with plain_errors(cluster.bootstrap):
        consumer = Consumer(settings | {"enable.partition.eof": True, "fetch.wait.max.ms": 100})
    try:
        consumer.assign([TopicPartition(topic.name, number, begin[number]) for number in left])
        with progress("reading the topic", total, is_wanted=not is_quiet) as step:
            for messages in _until_read(consumer, cluster.bootstrap, left):
                step(len(messages))
                for message in messages:
                    if message.error() is None and message.key() == key:
                        number = message.partition() or 0
                        found[number].append((message.timestamp()[1], number, message.offset() or 0))
    finally:
        consumer.close()
    hits = sorted((hit for hits in found.values() for hit in hits), reverse=True)
    return [At(number, offset) for _, number, offset in hits[:newest]]


def _until_read(consumer: Consumer, bootstrap: str, left: dict[int, int]) -> Iterator[list[Message]]:
    """Messages until each of these partitions has been read up to the offset it had, or to its end."""
    from confluent_kafka import KafkaError

    heard_at = time.monotonic()
    while left:
        with plain_errors(bootstrap):
            messages = consumer.consume(BATCH_MAX, POLL_S)
        if not messages and time.monotonic() - heard_at > QUIET_S:
            raise CliError(f"partition {min(left)} gives nothing more before its end", "see `chronik stalls` for why")
        heard_at = time.monotonic() if messages else heard_at
        for message in messages:
            number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
            is_at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if is_at_end or offset + 1 >= left.get(number, offset + 2):
                left.pop(number, None)
        yield messages


def by_sequence(
    addresses: list[Address], topic: TopicState, partitions: list[int], producer_id: int, sequence: int
) -> list[At]:
    """Where a producer's sequence number is, in every partition: it counts in each. Newest first."""
    try:
        seen = states(addresses, LOOK_TIMEOUT_S, topics=[topic.name])
    except NotChronik as problem:
        raise CliError(f"only Chronik can look for producers' numbers: {problem}", "give an offset, or --key") from None
    except NoAnswer as problem:
        raise CliError(str(problem), "check --bootstrap") from None
    holders = {
        (copy.partition, copy.is_leader): node_id
        for node_id, look in seen.items()
        for copy in look.copies
        if copy.topic == topic.name and copy.offline is None
    }
    found: list[At] = []
    for number in partitions:
        holder = holders.get((number, True), holders.get((number, False)))
        if holder is not None:
            found += _found_by(addresses, topic.name, number, holder, producer_id, sequence)
    return found


def _found_by(
    addresses: list[Address], topic: str, partition: int, holder: int, producer_id: int, sequence: int
) -> list[At]:
    found: list[At] = []
    from_offset = 0
    while from_offset >= 0:
        look = _look(
            addresses, node=holder, topic=topic, partition=partition, producer_id=producer_id, sequence=sequence,
            from_offset=from_offset,
        )  # fmt: skip
        if look.place is not Place.HERE:
            raise CliError(f"node {holder} cannot look through partition {partition}: {look.place}")
        found += (At(partition, each.offset) for each in look.found)
        from_offset = look.go_on_from
    return found[::-1]


def _look(addresses: list[Address], **arguments: object) -> FindLook:
    problem: NoAnswer | None = None
    for address in addresses:
        try:
            return look_as(FindLook, address, FIND, LOOK_TIMEOUT_S, **arguments)
        except NoAnswer as met:
            problem = met
    raise CliError(str(problem), "check --bootstrap")
