"""One run in transactions: write, or write and copy; then read what is committed, and compare.

A step that fails gives the producer up. The next one has the same transactional id: it fences the one before and ends
what that one left open. A commit that failed without an answer is in doubt: all of it counts or nothing, and the log
says which. A copy begins anew where its group has committed, as a program does that was killed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from chronik import __version__
from chronik.client.request import Address
from chronik.verify.clients.choice import open_client
from chronik.verify.clients.protocol import (
    Consumer,
    ConsumerFailed,
    Receiving,
    TransactionalClient,
    TransactionalProducer,
    TransactionFailed,
)
from chronik.verify.cluster import VerifyCluster
from chronik.verify.errors import RunCannotStart, Stopped
from chronik.verify.ledger import ReceivedRecord
from chronik.verify.messages import Messages
from chronik.verify.settings import VerifySettings
from chronik.verify.transactional.judge import Findings, ReadMessage, judge_copy, judge_produced
from chronik.verify.transactional.plan import (
    COPY_PREFIX,
    TransactionalSettings,
    TransactionBook,
    TransactionOutcome,
    TransactionPlan,
    last_value,
)

POLL_S = 2.0
FIRST_POLL_S = 5.0
PAUSE_S = 0.2

_T = TypeVar("_T")


@dataclass
class Reading:
    """What a reader of committed records was given, and whether it came to the end of every partition."""

    messages: list[ReadMessage] = field(default_factory=list)
    ended: dict[int, int] = field(default_factory=dict)  # by partition, the offset of its last record
    error: str | None = None


def verify_transactions(
    settings: VerifySettings,
    wanted: TransactionalSettings,
    addresses: Sequence[Address],
    is_stopped: Callable[[], bool] = lambda: False,
    on_note: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The report. Raises RunCannotStart, Stopped."""
    cluster = VerifyCluster(settings.bootstrap, addresses)
    client = open_client(settings.client, settings.bootstrap)
    mark = secrets.token_hex(4)
    topics = [f"chronik-verify-{mark}", *([f"chronik-verify-{mark}-copy"] if wanted.is_copy else [])]
    for topic in topics:
        cluster.create(topic, settings.partitions, settings.replication)
    run = TransactionalRun(settings, wanted, client, mark, topics, is_stopped, cluster.committed)
    report: dict[str, Any] | None = None
    try:
        report = run.carry_out()
    finally:
        is_kept = settings.is_kept or (report is not None and report["verdict"] != "pass")
        for topic in [] if is_kept else topics:
            try:
                cluster.delete(topic, run.group)
            except RunCannotStart as problem:
                on_note(f"{problem}; do it with `chronik topic delete {topic}`")
                is_kept = True
    versions = {"chronik": __version__, "client": client.version, "cluster": cluster.version_words}
    return report | {"topic_kept": is_kept, "versions": versions}


class TransactionalRun:
    def __init__(
        self,
        settings: VerifySettings,
        wanted: TransactionalSettings,
        client: TransactionalClient,
        mark: str,
        topics: Sequence[str],
        is_stopped: Callable[[], bool],
        committed: Callable[[str, str], Mapping[int, int]],
    ) -> None:
        self._committed = committed
        self._settings = settings
        self._wanted = wanted
        self._client = client
        self._topics = topics
        self._is_stopped = is_stopped
        self._plan = TransactionPlan(settings.messages, wanted.size, wanted.abort_rate, mark)
        self._messages = Messages(mark, settings.value_bytes)
        self._last = last_value(mark)
        self._name = f"chronik-verify-{mark}"
        self.group = f"chronik-verify-{mark}"

    def carry_out(self) -> dict[str, Any]:
        began_s = time.monotonic()
        book, copied = TransactionBook(), TransactionBook()
        self._write(book)
        written_s = time.monotonic() - began_s
        source = self._read(self._topics[0], b"")
        findings = judge_produced(self._plan, book, source.messages)
        copy: Reading | None = None
        is_copied = not self._wanted.is_copy
        if self._wanted.is_copy and findings.is_clean and len(source.ended) == self._settings.partitions:
            is_copied = self._copy(copied, source.ended)
            copy = self._read(self._topics[1], COPY_PREFIX)
            findings = judge_copy(source.messages, copy.messages)
        seconds = (written_s, time.monotonic() - began_s)
        return self._report(book, copied, source, copy, findings, is_copied, seconds)

    # --- writing

    def _write(self, book: TransactionBook) -> None:
        deadline = time.monotonic() + self._settings.timeout_s
        with _Producer(self._client, self._name, self._settings.send_timeout_s, book, deadline) as producer:
            for transaction in range(len(self._plan)):
                self._until_stopped()
                while transaction not in book.outcomes and time.monotonic() < deadline:
                    self._write_one(producer, transaction, book)
            self._end(producer, self._topics[0], deadline)

    def _write_one(self, producer: _Producer, transaction: int, book: TransactionBook) -> None:
        is_aborted = self._plan.is_aborted(transaction)
        is_ending = False
        try:
            made = producer.made()
            made.begin()
            for number in self._plan.numbers(transaction):
                made.send(self._topics[0], self._messages.value(number), number % self._settings.partitions)
            is_ending = not is_aborted
            made.abort() if is_aborted else made.commit()
        except TransactionFailed as failed:
            producer.give_up(str(failed))
            if is_ending:
                book.outcomes[transaction] = TransactionOutcome.IN_DOUBT
            else:  # whatever it left behind is aborted by the next producer
                book.aborted_for_errors += 1
            return
        book.outcomes[transaction] = TransactionOutcome.ABORTED if is_aborted else TransactionOutcome.COMMITTED

    def _end(self, producer: _Producer, topic: str, deadline: float) -> None:
        """A last record in every partition. Twice does no harm: a reader ends at the first."""
        while time.monotonic() < deadline:
            self._until_stopped()
            try:
                made = producer.made()
                made.begin()
                for partition in range(self._settings.partitions):
                    made.send(topic, self._last, partition)
                made.commit()
            except TransactionFailed as failed:
                producer.give_up(str(failed))
                continue
            return

    # --- copying

    def _copy(self, book: TransactionBook, ends: Mapping[int, int]) -> bool:
        """Consume, transform, produce, and commit the offsets in the same transaction, to the end of every partition.
        Whether it came that far in time."""
        deadline = time.monotonic() + self._settings.timeout_s
        done: set[int] = set()
        with _Producer(self._client, f"{self._name}-copy", self._settings.send_timeout_s, book, deadline) as producer:
            while len(done) < self._settings.partitions and time.monotonic() < deadline:
                try:
                    self._copy_on(producer, book, done, deadline)
                except (TransactionFailed, ConsumerFailed) as failed:
                    producer.give_up(str(failed))
                    time.sleep(PAUSE_S)
                    done |= self._already_copied(ends)
            self._end(producer, self._topics[1], deadline)
        return len(done) == self._settings.partitions

    def _already_copied(self, ends: Mapping[int, int]) -> set[int]:
        """A commit that failed may have been carried out: then its records do not come again."""
        try:
            committed = self._committed(self.group, self._topics[0])
        except RunCannotStart:  # asked again after the next failure, or the records come
            return set()
        return {partition for partition, offset in ends.items() if committed.get(partition, 0) > offset}

    def _copy_on(self, producer: _Producer, book: TransactionBook, done: set[int], deadline: float) -> None:
        """From where the group has committed on. What an earlier attempt has committed does not come again."""
        made = producer.made()
        order = Receiving(
            self._topics[0],
            f"{self._name}-copier",
            self.group,
            dict.fromkeys(range(self._settings.partitions), 0),
            self._settings.max_poll_records,
            is_committed_only=True,
            is_auto_commit=False,
        )
        consumer = self._client.consumer(order)
        try:
            while len(done) < self._settings.partitions and time.monotonic() < deadline:
                self._until_stopped()
                records = consumer.poll(FIRST_POLL_S)
                if records:
                    self._copy_batch(made, consumer, records, book, done)
        finally:
            consumer.close()

    def _copy_batch(
        self,
        producer: TransactionalProducer,
        consumer: Consumer,
        records: Sequence[ReceivedRecord],
        book: TransactionBook,
        done: set[int],
    ) -> None:
        transaction, attempt = len(book.outcomes), 0
        offsets = {record.partition: record.offset + 1 for record in records}
        while True:
            producer.begin()
            for record in records:
                if record.value is not None and record.value != self._last:
                    producer.send(self._topics[1], COPY_PREFIX + record.value, record.partition)
            producer.send_offsets(consumer, self.group, self._topics[0], offsets)
            if not self._plan.is_aborted(transaction, attempt):
                break
            producer.abort()  # as a program does that fails half-way; the records are still at hand
            book.outcomes[-1 - book.count(TransactionOutcome.ABORTED)] = TransactionOutcome.ABORTED
            attempt += 1
        producer.commit()
        book.outcomes[transaction] = TransactionOutcome.COMMITTED
        done.update(record.partition for record in records if record.value == self._last)

    # --- reading

    def _read(self, topic: str, prefix: bytes) -> Reading:
        """Everything that is committed, up to the last record of every partition."""
        reading, partitions = Reading(), self._settings.partitions
        order = Receiving(
            topic,
            f"{self._name}-reader",
            None,
            dict.fromkeys(range(partitions), 0),
            self._settings.max_poll_records,
            is_committed_only=True,
        )
        deadline = time.monotonic() + self._settings.timeout_s
        try:
            consumer = self._client.consumer(order)
            try:
                while len(reading.ended) < partitions and time.monotonic() < deadline:
                    self._until_stopped()
                    for record in consumer.poll(POLL_S):
                        self._take(reading, record, prefix)
            finally:
                consumer.close()
        except ConsumerFailed as failed:
            reading.error = str(failed)
        return reading

    def _take(self, reading: Reading, record: ReceivedRecord, prefix: bytes) -> None:
        if record.value == self._last:
            reading.ended.setdefault(record.partition, record.offset)
        elif record.partition not in reading.ended:
            value = record.value
            is_own = value is not None and value.startswith(prefix)
            number = self._messages.number(value[len(prefix) :]) if is_own and value is not None else -1
            reading.messages.append(ReadMessage(number, record.partition))

    def _until_stopped(self) -> None:
        if self._is_stopped():
            raise Stopped

    # --- what came of it

    def _report(
        self,
        book: TransactionBook,
        copied: TransactionBook,
        source: Reading,
        copy: Reading | None,
        findings: Findings,
        is_copied: bool,
        seconds: tuple[float, float],
    ) -> dict[str, Any]:
        judged = source if copy is None else copy
        is_read_whole = len(judged.ended) == self._settings.partitions and (copy is None or is_copied)
        begun = len(book.outcomes)
        is_done = begun == len(self._plan) and is_copied
        evidence = findings.lines(is_read_whole)
        if begun < len(self._plan):
            evidence.append(f"{len(self._plan) - begun:,} transactions were not begun: the time was up")
        if judged.error is not None:
            evidence.append(f"the client gave up reading: {judged.error}")
        if not is_read_whole:
            evidence.append("not every partition was read to its end: what is not read may still be there")
        if copy is not None and not is_copied:
            evidence.append("the copy did not come to the end of its input: the time was up")
        is_broken = not findings.is_clean and (is_read_whole or bool(findings.aborted_read or findings.torn))
        is_broken |= bool(findings.duplicated or findings.reordered)
        verdict = "fail" if is_broken else "pass" if is_done and is_read_whole and findings.is_clean else "partial"
        return {
            "mode": "copy" if self._wanted.is_copy else "transactional",
            "verdict": verdict,
            "summary": self._summary(verdict, judged, copy is not None),
            "evidence": evidence,
            "messages": self._settings.messages,
            "transactions": begun,
            **_counted(book, findings),
            "read": len(judged.messages),
            "missing": len(findings.missing),
            "aborted_read": len(findings.aborted_read),
            "torn": len(findings.torn),
            "duplicated": len(findings.duplicated),
            "reordered": len(findings.reordered),
            "foreign": findings.foreign,
            "copies": None if copy is None else _counted(copied, Findings()),
            "read_to_the_end": is_read_whole,
            "errors": dict(book.errors),
            "seconds": round(seconds[1], 3),
            "produce_seconds": round(seconds[0], 3),
            "topics": list(self._topics),
            "client": str(self._settings.client),
            "settings": self._settings.to_json()
            | {"acks": "all", "transaction_size": self._wanted.size, "abort_rate": self._wanted.abort_rate},
        }

    def _summary(self, verdict: str, judged: Reading, is_copied: bool) -> str:
        read = f"{len(judged.messages):,} messages"
        if verdict == "pass":
            what = "the copy equals its input" if is_copied else "all that was committed was read, and nothing else"
            return f"{read}, each once and in order: {what}"
        return f"{read} were read; see the evidence"


def _counted(book: TransactionBook, findings: Findings) -> Mapping[str, Any]:
    return {
        "committed": book.count(TransactionOutcome.COMMITTED),
        "aborted": book.count(TransactionOutcome.ABORTED),
        "in_doubt": book.count(TransactionOutcome.IN_DOUBT),
        "in_doubt_committed": len(findings.kept),
        "failed_and_sent_again": book.aborted_for_errors,
        "restarts": book.restarts,
    }


class _Producer:
    """The producer with one transactional id, made anew after a failure."""

    def __init__(
        self, client: TransactionalClient, name: str, timeout_s: float, book: TransactionBook, deadline: float
    ) -> None:
        self._client = client
        self._name = name
        self._timeout_s = timeout_s
        self._book = book
        self._deadline = deadline
        self._made: TransactionalProducer | None = None

    def __enter__(self) -> _Producer:
        return self

    def __exit__(self, *problem: object) -> None:
        self._close()

    def made(self) -> TransactionalProducer:
        """Raises TransactionFailed when there is none in time."""
        while self._made is None:
            try:
                self._made = self._client.transactional(self._name, self._timeout_s)
            except TransactionFailed as failed:
                self._book.failed(str(failed))
                if time.monotonic() > self._deadline:
                    raise
                time.sleep(PAUSE_S)
        return self._made

    def give_up(self, reason: str) -> None:
        self._book.failed(reason)
        self._close()

    def _close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None
