"""Where to begin and end, asked of the cluster: topics that match, and offsets for the places a user named."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from chronik.pipeline.topics.client import NO_OFFSET, Failed, ReadPartition, TopicClient, TopicSeen
from chronik.pipeline.topics.options import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    BadOption,
    Everywhere,
    PartitionNumbers,
    Place,
    ReadOptions,
    Topics,
)

log = logging.getLogger(__name__)


class DataLoss(Failed):
    """Records that were to be read are not there any more."""


def data_loss(options: ReadOptions, words: str) -> None:
    """Raises DataLoss, or only says so where the user wants to go on."""
    if options.fails_on_data_loss:
        raise DataLoss(f"{words}. To read on without them: option failOnDataLoss=false")
    log.warning("%s; going on without them, as failOnDataLoss=false says", words)


def find_topics(cluster: TopicClient, wanted: Topics) -> dict[str, TopicSeen]:
    """The topics that are meant, as they are now. Raises NoSuchTopic for one that is named and not there."""
    if wanted.pattern is not None:
        everything = cluster.topics(None)
        return {
            name: topic
            for name, topic in sorted(everything.items())
            if not topic.is_internal and re.fullmatch(wanted.pattern, name)
        }
    names = wanted.names or tuple(wanted.assigned or ())
    found = cluster.topics(names)
    if missing := sorted(set(names) - set(found)):
        raise cluster.missing(missing)
    return found


def partitions_of(topics: Mapping[str, TopicSeen], wanted: Topics) -> list[ReadPartition]:
    """The partitions that are meant, of the topics that are there."""
    if wanted.assigned is None:
        return [
            ReadPartition(name, number) for name, topic in sorted(topics.items()) for number in sorted(topic.leaders)
        ]
    there = {name: numbers for name, numbers in sorted(wanted.assigned.items()) if name in topics}
    for name, numbers in there.items():
        for number in numbers:
            if number not in topics[name].leaders:
                raise BadOption(f"assign: topic {name!r} has {len(topics[name].leaders)} partitions, and no {number}")
    return [ReadPartition(name, number) for name, numbers in there.items() for number in numbers]


def starting_offsets(
    cluster: TopicClient, partitions: list[ReadPartition], options: ReadOptions
) -> dict[ReadPartition, int]:
    at = _asked(partitions, options.starting, "starting")
    found = _looked_up(cluster, at, options.starting)
    for partition, offset in found.items():
        if offset == NO_OFFSET:
            if not options.is_late_start_latest:
                raise BadOption(
                    f"no record of {partition} is as late as the starting time {at[partition]}; "
                    "startingOffsetsByTimestampStrategy=latest would begin at the end"
                )
            found[partition] = cluster.offsets({partition: LATEST})[partition]
    return _within(cluster, found, options) if isinstance(options.starting, AtOffsets) else found


def ending_offsets(
    cluster: TopicClient, partitions: list[ReadPartition], options: ReadOptions
) -> dict[ReadPartition, int]:
    at = _asked(partitions, options.ending, "ending")
    found = _looked_up(cluster, at, options.ending)
    latest = cluster.offsets(dict.fromkeys(partitions, LATEST))
    for partition, offset in found.items():
        if offset == NO_OFFSET:  # no record is that late: all are wanted
            found[partition] = latest[partition]
        elif offset > latest[partition]:
            data_loss(options, f"{partition} ends at offset {latest[partition]}, and was to be read up to {offset}")
            found[partition] = latest[partition]
    return found


def _asked(partitions: list[ReadPartition], place: Place, side: str) -> dict[ReadPartition, int]:
    """An offset, EARLIEST, LATEST or a time for each partition."""
    match place:
        case Everywhere(offset):
            return dict.fromkeys(partitions, offset)
        case AtTime(timestamp_ms):
            return dict.fromkeys(partitions, timestamp_ms)
        case AtOffsets(numbers):
            return _named(partitions, numbers, f"{side}Offsets")
        case AtTimes(numbers):
            return _named(partitions, numbers, f"{side}OffsetsByTimestamp")


def _named(partitions: list[ReadPartition], numbers: PartitionNumbers, option: str) -> dict[ReadPartition, int]:
    """As in the connector, all partitions must be named, and no others: a forgotten one would go unread."""
    named = {ReadPartition(topic, number): value for topic, each in numbers.items() for number, value in each.items()}
    if missing := sorted(set(partitions) - set(named)):
        raise BadOption(f"{option} says nothing about {', '.join(map(str, missing[:5]))}")
    if unknown := sorted(set(named) - set(partitions)):
        raise BadOption(f"{option} names {', '.join(map(str, unknown[:5]))}: not among the partitions to be read")
    return {partition: named[partition] for partition in partitions}


def _looked_up(cluster: TopicClient, at: Mapping[ReadPartition, int], place: Place) -> dict[ReadPartition, int]:
    if not isinstance(place, AtOffsets):
        return cluster.offsets(at)
    symbolic = {partition: offset for partition, offset in at.items() if offset in (EARLIEST, LATEST)}
    return {**at, **cluster.offsets(symbolic)}


def _within(cluster: TopicClient, found: dict[ReadPartition, int], options: ReadOptions) -> dict[ReadPartition, int]:
    """Offsets a user named are held against the log: a reader would find out only after a long wait."""
    earliest = cluster.offsets(dict.fromkeys(found, EARLIEST))
    latest = cluster.offsets(dict.fromkeys(found, LATEST))
    within = {}
    for partition, offset in found.items():
        low, high = earliest[partition], latest[partition]
        if not low <= offset <= high:
            data_loss(options, f"{partition} has offsets {low} to before {high}, and was to be read from {offset}")
        within[partition] = min(max(offset, low), high)
    return within
