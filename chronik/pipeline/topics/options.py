"""What a user says to `format("chronik")`, understood and checked before anything is asked of a cluster.

The names are those of Spark's Kafka connector where they mean the same. A name that is not known is an error: an option
misspelt and ignored would read the wrong records.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from chronik.client.errors import ChronikError
from chronik.client.options import ClientOptions
from chronik.client.security import Security
from chronik.client.security_settings import PREFIXES, security_of
from chronik.core.records.batch import COMPRESSION_NAMES

EARLIEST = -2
LATEST = -1
READ, RECORDS, BATCHES = "chronik.read", "records", "batches"  # what a row is

PartitionNumbers: TypeAlias = Mapping[str, Mapping[int, int]]
"""A number for each partition of each topic."""


class BadOption(ValueError):
    """An option that cannot be meant as it is written; the message names it."""


@dataclass(frozen=True)
class Everywhere:
    """The same place in all partitions: EARLIEST or LATEST."""

    offset: int


@dataclass(frozen=True)
class AtOffsets:
    """A place in each partition; EARLIEST and LATEST may stand in for a number."""

    offsets: PartitionNumbers


@dataclass(frozen=True)
class AtTime:
    """The first record that is not older, in all partitions."""

    timestamp_ms: int


@dataclass(frozen=True)
class AtTimes:
    """The same, with a time for each partition."""

    timestamps_ms: PartitionNumbers


Place: TypeAlias = Everywhere | AtOffsets | AtTime | AtTimes


@dataclass(frozen=True)
class Topics:
    """Which topics: exactly one of the three is given."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None

    def __str__(self) -> str:
        return f"topics like {self.pattern!r}" if self.pattern else ", ".join(self.names or sorted(self.assigned or ()))


@dataclass(frozen=True)
class ReadOptions:
    """Everything about reading."""

    client: ClientOptions
    topics: Topics
    starting: Place
    ending: Place
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    fails_on_data_loss: bool = True
    has_headers: bool = False
    is_late_start_latest: bool = False
    """Whether a starting time later than all records means 'latest' rather than an error."""
    is_by_batch: bool = False
    """One row a record batch instead of one a record."""
    min_offsets_per_trigger: int | None = None
    """A micro-batch waits until there are so many, or for `max_trigger_delay_s` since the last one began."""
    max_trigger_delay_s: float = 900.0


@dataclass(frozen=True)
class WriteOptions:
    """Everything about writing."""

    client: ClientOptions
    topic: str | None = None
    compression: int = 0
    batch_bytes: int = 900_000
    """Below max.message.bytes (1 MiB unless a topic says otherwise), with room for what an estimate may miss."""
    rows_per_second: int | None = None
    """At most so many, by each task."""
    writer_id: str | None = None
    """The writer of a batch: the same rows by the same writer again are written once. None: a writer of this name is
    new."""
    is_exactly_once: bool = False
    """In one transaction each, visible to read_committed whole or not at all."""
    transaction_timeout_ms: int = 60_000


_READ = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "failOnDataLoss",
    "includeHeaders", READ,
)  # fmt: skip
_WRITE = ("topic", "batchBytes", "rowsPerSecond", "writerId", "exactlyOnce", "checkpointLocation", "path")
# The connector's, about how its own consumers work inside: nothing here corresponds to them.
_WITHOUT_MEANING = (
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "includeTimestamp",
)  # fmt: skip
_KAFKA = (
    "bootstrap.servers", "client.id", "request.timeout.ms", "max.partition.fetch.bytes", "isolation.level",
    "compression.type", "transaction.timeout.ms",
)  # fmt: skip


_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class _Given:
    """The options as given; Spark hands them over with names in any case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in (*known, *_WITHOUT_MEANING, *(f"kafka.{name}" for name in _KAFKA))}
        for name in options:
            # Others of Kafka's tune a client's insides, or are about security, which has a list of its own.
            if name.lower() not in names and not name.lower().startswith("kafka."):
                near = difflib.get_close_matches(name.lower(), names, 1)
                raise BadOption(f"no option {name!r}" + (f"; is {names[near[0]]!r} meant?" if near else ""))

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def security(self) -> Security:
        """What they say of encryption and a login, under Kafka's names."""
        kafka = {
            name.removeprefix("kafka."): value for name, value in self._values.items() if name.startswith("kafka.")
        }
        try:
            return security_of(kafka)
        except ChronikError as problem:
            raise BadOption(f"kafka.{problem}" if problem.message.startswith(PREFIXES) else str(problem)) from problem

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(name) or default
        for choice in choices:
            if value.lower() == choice.lower():
                return choice
        raise BadOption(f"{name} is {value!r}; it may be {', '.join(choices)}")

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default)) == "true"

    def number(self, name: str, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"\s*\d+\s*", value) or int(value) < least:
            raise BadOption(f"{name} is {value!r}; it must be a number of at least {least}")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        """A time as Spark writes it: `15m`, `90s`, `500ms`; without a unit, seconds."""
        value = self.text(name)
        if value is None:
            return default
        parts = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())
        if parts is None or (parts[2] or "s") not in _UNITS_S:
            raise BadOption(f"{name} is {value!r}; it must be a time such as 15m, 90s or 500ms")
        return int(parts[1]) * _UNITS_S[parts[2] or "s"]

    def numbers(self, name: str) -> dict[str, dict[int, int]] | None:
        """{"topic": {"0": 23, ...}, ...}"""
        value = self.text(name)
        if value is None:
            return None
        try:
            return {
                str(topic): {int(partition): _whole(number) for partition, number in partitions.items()}
                for topic, partitions in json.loads(value).items()
            }
        except (ValueError, AttributeError, TypeError) as problem:
            example = '{"topic": {"0": 23, "1": -2}}'
            raise BadOption(f"{name} is {value!r}; it must look like {example}") from problem


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value


def read_options(options: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    """Raises BadOption."""
    given = _Given(options, _READ)
    starting = _place(given, "starting", Everywhere(LATEST if is_streaming else EARLIEST))
    ending = _place(given, "ending", Everywhere(LATEST))
    if is_streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if given.text(name) is not None:
                raise BadOption(f"{name} has no meaning for a stream: it has no end")
    elif starting == Everywhere(LATEST):
        raise BadOption("startingOffsets is 'latest': a batch would have nothing to read")
    if ending == Everywhere(EARLIEST):
        raise BadOption("endingOffsets is 'earliest': there would be nothing to read")
    return ReadOptions(
        client_options(given),
        _topics(given),
        starting,
        ending,
        given.number("maxOffsetsPerTrigger"),
        given.number("minPartitions"),
        given.flag("failOnDataLoss", True),
        given.flag("includeHeaders", False),
        given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error") == "latest",
        given.choice(READ, (RECORDS, BATCHES), RECORDS) == BATCHES,
        _min_offsets(given, is_streaming=is_streaming),
        given.seconds("maxTriggerDelay", ReadOptions.max_trigger_delay_s),
    )


def _min_offsets(given: _Given, *, is_streaming: bool) -> int | None:
    least, most = given.number("minOffsetsPerTrigger"), given.number("maxOffsetsPerTrigger")
    if least is not None and not is_streaming:
        raise BadOption("minOffsetsPerTrigger has no meaning for a batch: it has one trigger")
    if least is not None and most is not None and least > most:
        raise BadOption(f"minOffsetsPerTrigger ({least}) is more than maxOffsetsPerTrigger ({most})")
    return least


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Raises BadOption."""
    given = _Given(options, _WRITE)
    codec = given.choice("kafka.compression.type", COMPRESSION_NAMES, "none")
    batch_bytes = given.number("batchBytes", 1024) or WriteOptions.batch_bytes
    topic = given.text("topic")
    rate, writer_id = given.number("rowsPerSecond"), given.text("writerId")
    is_exactly_once = given.choice("exactlyOnce", ("true", "false"), "false") == "true"
    if is_exactly_once and rate is not None:
        raise BadOption("rowsPerSecond and exactlyOnce contradict each other: a transaction is written at once")
    timeout_ms = given.number("kafka.transaction.timeout.ms", 1) or WriteOptions.transaction_timeout_ms
    cluster, codec_number = client_options(given), COMPRESSION_NAMES.index(codec)
    return WriteOptions(
        cluster, topic, codec_number, batch_bytes, rate, writer_id, is_exactly_once, transaction_timeout_ms=timeout_ms
    )


def _place(given: _Given, side: str, default: Everywhere) -> Place:
    """A time for all stands before times, and those before offsets: as in the connector."""
    time_ms = given.number(f"{side}Timestamp", 0)
    if time_ms is not None:
        return AtTime(time_ms)
    times = given.numbers(f"{side}OffsetsByTimestamp")
    if times is not None:
        return AtTimes(times)
    match (given.text(f"{side}Offsets") or "").strip().lower():
        case "":
            return default
        case "earliest":
            return Everywhere(EARLIEST)
        case "latest":
            return Everywhere(LATEST)
    offsets = given.numbers(f"{side}Offsets") or {}
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST or (side == "ending" and offset == EARLIEST):
                raise BadOption(f"{side}Offsets: {offset} for {topic}-{partition} is no offset")
    return AtOffsets(offsets)


def _topics(given: _Given) -> Topics:
    named = [name for name in ("subscribe", "subscribePattern", "assign") if given.text(name) is not None]
    if len(named) != 1:
        raise BadOption(f"exactly one of subscribe, subscribePattern and assign must be given, not {len(named)}")
    text = (given.text(named[0]) or "").strip()
    if not text:
        raise BadOption(f"{named[0]} is empty")
    match named[0]:
        case "subscribe":
            return Topics(names=tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip())))
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as problem:
                raise BadOption(f"subscribePattern {text!r} is no regular expression: {problem}") from problem
            return Topics(pattern=text)
    try:
        assigned = {str(topic): tuple(sorted(map(_whole, numbers))) for topic, numbers in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as problem:
        example = '{"topic": [0, 1]}'
        raise BadOption(f"assign is {text!r}; it must look like {example}") from problem
    return Topics(assigned=assigned)


def cluster_options(options: Mapping[str, str]) -> ClientOptions:
    """How to reach the cluster, where nothing is read or written yet. Raises BadOption."""
    return client_options(_Given(options, ()))


def client_options(given: _Given) -> ClientOptions:
    isolation = given.choice("kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted")
    return ClientOptions(
        _addresses(given.text("kafka.bootstrap.servers")),
        given.security(),
        given.text("kafka.client.id") or ClientOptions.client_id,
        given.number("kafka.request.timeout.ms") or ClientOptions.timeout_ms,
        given.number("kafka.max.partition.fetch.bytes") or ClientOptions.fetch_bytes,
        isolation == "read_committed",
    )


def _addresses(text: str | None) -> tuple[tuple[str, int], ...]:
    if not text:
        raise BadOption("kafka.bootstrap.servers is not given")
    addresses = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise BadOption(f"kafka.bootstrap.servers: {part.strip()!r} is no host:port")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(addresses)
