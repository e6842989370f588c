"""What the tests of every client share: which clients are here, records as plain values, waiting, group members."""

from __future__ import annotations

import importlib
import os
import shutil
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.jvm import CACHE, CLIENTS, jars_of

FRANZ_GO = CACHE / "franz-go-checks"
FRANZ_GO_SECURED = CACHE / "franz-go-secured"
WAIT_SECONDS = 30.0
KAFKA_PYTHON_POLL_MS = 5_000
"""kafka-python 3.0 drops the SyncGroup response that comes after the poll it joined in has ended, and never joins
again: a member is polled for longer than a join takes. A poll ends with the first records anyway."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Settings = dict[str, Any]
"""Client settings under Kafka's own (the Java client's) names."""
NONE: Settings = {}


@dataclass(frozen=True)
class Record:
    """A record to produce, or one that was consumed; where it lies is known in the second case only."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    offset: int | None = None


class MessageTooLarge(Exception):
    """The node refused a record as larger than `max.message.bytes`."""


class Consumer(Protocol):
    """A client's consumer as the shared tests see it."""

    def poll(self) -> list[Record]: ...
    def assignment(self) -> set[int]: ...
    def commit(self) -> None: ...
    def seek(self, partition: int, offset: int) -> None: ...
    def offset_at(self, partition: int, timestamp_ms: int) -> int | None: ...
    def close(self) -> None:
        """Leaves the group if there is one. Closing twice does nothing."""


class Client(ABC):
    """A client library as the shared tests see it. Settings that are not given stay at the library's defaults."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._consumers: list[Consumer] = []

    @abstractmethod
    def produce(self, topic: str, records: Iterable[Record], settings: Settings = NONE) -> list[Record]:
        """Sends them all, waits for the answers, and gives them back with the place each one got."""

    @abstractmethod
    def make_consumer(self, topic: str, settings: Settings, partitions: Sequence[int] | None) -> Consumer:
        """A new consumer that is subscribed to the topic, or to which the partitions are assigned."""

    def consumer(self, topic: str, settings: Settings = NONE, partitions: Sequence[int] | None = None) -> Consumer:
        consumer = self.make_consumer(topic, settings, partitions)
        self._consumers.append(consumer)
        return consumer

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


def needs(client: str, *, is_bonus: bool = False) -> None:
    """At the top of a test module, or in a test: skips it by name, and says why, if its client is not here.

    With CHRONIK_REQUIRE_CLIENTS=1 a missing client is an error, unless it is a bonus.
    """
    reason = _why_missing(client)
    if reason is None:
        return
    if os.environ.get("CHRONIK_REQUIRE_CLIENTS") == "1" and not is_bonus:
        raise RuntimeError(f"client {client}: {reason}")
    pytest.skip(f"client {client}: {reason}", allow_module_level=True)


def _why_missing(client: str) -> str | None:
    if client == "spark":
        return _why_not_imported("pyspark") or _why_no_java()
    program, part = {
        "franz-go": ("go", FRANZ_GO),
        "franz-go secured": ("go", FRANZ_GO_SECURED),
        "kcat": ("kcat", None),
        "openssl": ("openssl", None),
        "kafkajs": ("node", CLIENTS / "node" / "node_modules" / "kafkajs"),
        "java client": ("javac", jars_of("client")),
        "kafka tools": ("java", jars_of("tools")),
        "spark connector": ("java", jars_of("connector")),
    }.get(client, (None, None))
    if program is None:
        return _why_not_imported(client)
    if shutil.which(program) is None:
        return f"there is no {program} on the path"
    return None if part is None or part.exists() else "it is not installed (tests/clients/setup.sh does it)"


def _why_no_java() -> str | None:
    from chronik.pipeline.session import SparkNotReady, java_version

    try:
        java_version()
    except SparkNotReady as problem:
        return str(problem)
    return None


def _why_not_imported(package: str) -> str | None:
    """Imports it here, because warnings are errors in our tests and what a library does inside is not our business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(package)
        except ImportError as error:
            return f"the Python package {package} is not installed ({error})"
    return None


def create_topic(bootstrap: str, name: str, partitions: int, config: Mapping[str, str]) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config))])[name].result(WAIT_SECONDS)
    # Apache Kafka answers before its broker has heard of the topic from its controller.
    wait_until(lambda: name in admin.list_topics(timeout=10).topics, "the new topic is listed")
    return name


def wait_until(condition: Callable[[], bool], what: str | Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Polls until it is so; `what` says in the failure what was waited for."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def at_once(condition: Callable[[], bool], what: str) -> None:
    """Our node answers when a change can be seen; Apache Kafka's broker hears of it from its controller a bit later."""
    wait_until(condition, what, seconds=WAIT_SECONDS if os.environ.get("CHRONIK_TEST_PEER") == "kafka" else 0.0)


def read(consumer: Consumer, count: int, seconds: float = WAIT_SECONDS) -> list[Record]:
    """The next `count` records."""
    records: list[Record] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        if time.monotonic() > deadline:
            pytest.fail(f"{len(records)} of {count} records within {seconds:.0f} s")
        records += consumer.poll()
    assert len(records) == count, f"{len(records)} records, {count} expected"
    return records


def content(records: Iterable[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


class Member:
    """A group member that polls in a thread of its own until it leaves."""

    def __init__(self, join: Callable[[], Consumer]) -> None:
        self.partitions: frozenset[int] = frozenset()
        self.values: list[bytes | None] = []
        self._join = join
        self._leaving = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._poll_until_left, daemon=True)

    def __enter__(self) -> Member:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leaving.set()
        self._thread.join(WAIT_SECONDS)
        if error is None and self._failure is not None:
            raise self._failure
        assert error is not None or not self._thread.is_alive(), "the member did not leave"

    def _poll_until_left(self) -> None:
        try:
            consumer = self._join()
            try:
                while not self._leaving.is_set():
                    self.values += [record.value for record in consumer.poll()]
                    self.partitions = frozenset(consumer.assignment())
            finally:
                self.partitions = frozenset()
                consumer.close()
        except BaseException as failure:
            self._failure = failure


def wait_until_owned(partitions: int, *members: Member) -> None:
    """Until every member has partitions, and each partition one owner."""
    everything = list(range(partitions))

    def shared_out() -> bool:
        owned = [member.partitions for member in members]
        return all(owned) and sorted(partition for some in owned for partition in some) == everything

    wait_until(shared_out, lambda: f"{partitions} partitions over {[sorted(m.partitions) for m in members]}")
