"""One run: make the topic, produce, consume, compare, and search for what is missing."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chronik import __version__
from chronik.client.request import Address
from chronik.inspect.trace_history import TraceHistory
from chronik.verify.books import Books
from chronik.verify.clients.choice import another_than, open_client
from chronik.verify.clients.protocol import Consumer, ConsumerFailed, ProducerFailed, Receiving, Sending, VerifyClient
from chronik.verify.cluster import TRACE, VerifyCluster
from chronik.verify.compare import Comparison, compare
from chronik.verify.errors import RunCannotStart, Stopped
from chronik.verify.fates import Fate, MissingSearch, fates
from chronik.verify.history import RunHistory
from chronik.verify.ledger import ACKNOWLEDGED, DeliveredMessages, Ledger, missing
from chronik.verify.messages import Messages
from chronik.verify.observer import ClusterObserver, OnProgress
from chronik.verify.patience import Ends, Patience
from chronik.verify.pulse import STALL_S
from chronik.verify.result import VerifyResult
from chronik.verify.search import Scene, search, told_of
from chronik.verify.settings import Spread, VerifyAcks, VerifySettings
from chronik.verify.tail import Tail
from chronik.verify.verdict import Facts, FateCount, VerifyOutcome, judge

# kafka-python never takes in an assignment that arrives after the poll that asked for it: the first may be long.
FIRST_POLL_S = 5.0
POLL_S = 2.0
NO_BOOKS = Books()

OnNote = Callable[[str], None]
"""It is given what the user is to know and what is no part of the verdict."""


@dataclass(frozen=True)
class Stage:
    """Where a run takes place."""

    topic: str
    starts: Mapping[int, int]
    replication: int | None
    group: str | None
    is_own: bool
    """Made by us, so ours to delete."""
    is_traced_by_us: bool = False

    @property
    def partitions(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Consuming:
    """How consuming went."""

    seconds: float
    first_s: float | None
    """Until the first message came."""
    quiet_s: float
    error: str | None
    unread: Sequence[str]
    """What the log has behind the last message and the consumer was not given, in words."""


def verify(
    settings: VerifySettings,
    addresses: Sequence[Address],
    history: RunHistory,
    on_progress: OnProgress,
    is_stopped: Callable[[], bool] = lambda: False,
    books: Books = NO_BOOKS,
    on_note: OnNote = lambda text: None,
) -> VerifyResult:
    """The whole run. Raises RunCannotStart when it cannot even begin, Stopped when it is to end before its end."""
    settings.check()
    books.check()
    client = open_client(settings.client, settings.bootstrap)
    cluster = VerifyCluster(settings.bootstrap, addresses)
    return verify_on(cluster, client, settings, history, on_progress, is_stopped, books, on_note)


def verify_on(
    cluster: VerifyCluster,
    client: VerifyClient,
    settings: VerifySettings,
    history: RunHistory,
    on_progress: OnProgress,
    is_stopped: Callable[[], bool],
    books: Books,
    on_note: OnNote,
) -> VerifyResult:
    """The same with a cluster and a client that are there."""
    cluster.nodes()
    started_at = datetime.now().astimezone().isoformat(timespec="seconds")
    run = history.begin(started_at, settings)
    mark = secrets.token_hex(4)
    try:
        stage = set_up(cluster, settings, run, mark)
    except RunCannotStart:
        _keep(lambda: history.forget(run), on_note)
        raise
    try:
        result = _Run(settings, cluster, client, stage, run, mark, on_progress, is_stopped, books).carry_out(started_at)
    except (Stopped, RunCannotStart):
        clear_up(cluster, stage, settings.is_kept or not stage.is_own, on_note)
        raise
    # First: on a cluster that is unwell the user may not want to wait for the rest.
    is_in_history = _keep(lambda: history.finish(run, result.to_json()), on_note)
    is_kept = settings.is_kept or not stage.is_own or result.judgement.outcome is not VerifyOutcome.PASS
    if not clear_up(cluster, stage, is_kept, on_note):
        result = replace(result, is_topic_kept=False)
        if is_in_history:
            _keep(lambda: history.finish(run, result.to_json()), on_note)
    return result


def _keep(change: Callable[[], None], on_note: OnNote) -> bool:
    """Whether the history took it. One that is locked or on a full disk takes nothing away from how the run ended."""
    try:
        change()
    except RunCannotStart as problem:
        on_note(f"this run could not be kept: {problem}")
        return False
    return True


def set_up(cluster: VerifyCluster, settings: VerifySettings, run: int, mark: str) -> Stage:
    """The topic, and where its messages will begin."""
    topic = settings.topic or f"chronik-verify-{run}-{mark}"
    group = None if settings.is_assigned else settings.group or f"chronik-verify-{run}-{mark}"
    partitions = cluster.partitions(topic) if settings.topic is not None else None
    if partitions is None:
        copies = cluster.create(topic, settings.partitions, settings.replication)
        starts = dict.fromkeys(range(settings.partitions), 0)
        return Stage(topic, starts, copies, group, is_own=settings.topic is None)
    starts = cluster.ends(topic, partitions)
    if len(starts) < partitions:
        raise RunCannotStart(f"topic {topic} has partitions without a leader", "see `chronik topic describe`")
    if group is not None:
        cluster.commit(group, topic, starts)
    is_traced_by_us = cluster.is_chronik and not cluster.is_traced(topic)
    if is_traced_by_us:
        cluster.trace(topic, is_on=True)
    return Stage(topic, starts, None, group, is_own=False, is_traced_by_us=is_traced_by_us)


def clear_up(cluster: VerifyCluster, stage: Stage, is_kept: bool, on_note: OnNote) -> bool:
    """Leaves behind what was there before, and the topic if it is to be looked at. Returns whether the topic stays.

    What cannot be done is said, and no more: how the run ended is not changed by it."""
    if not is_kept:
        try:
            cluster.delete(stage.topic, stage.group)
        except RunCannotStart as problem:
            on_note(f"{problem}; do it with `chronik topic delete {stage.topic}`")
            return True
        return False
    if stage.is_traced_by_us:
        try:
            cluster.trace(stage.topic, is_on=False)
        except RunCannotStart as problem:
            how = f"chronik topic alter {stage.topic} --delete-config {TRACE}"
            on_note(f"{problem}; if the topic is still there, do it with `{how}`")
    return True


class _Run:
    def __init__(
        self,
        settings: VerifySettings,
        cluster: VerifyCluster,
        client: VerifyClient,
        stage: Stage,
        run: int,
        mark: str,
        on_progress: OnProgress,
        is_stopped: Callable[[], bool],
        books: Books,
    ) -> None:
        self._is_stopped = is_stopped
        self._books = books
        self._settings = settings
        self._cluster = cluster
        self._client = client
        self._stage = stage
        self._run = run
        self._messages = Messages(mark, settings.value_bytes)
        self._client_id = f"chronik-verify-{run}-{mark}"
        self._began = time.monotonic()
        self._ledger = Ledger(settings.messages, self._seconds, is_answered=settings.acks is not VerifyAcks.NONE)
        gathering = TraceHistory(cluster.addresses, [stage.topic]) if cluster.is_chronik else None
        self._observer = ClusterObserver(gathering, stage.topic, stage.group, self._seconds, on_progress)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def carry_out(self, started_at: str) -> VerifyResult:
        ledger = self._ledger
        self._observer.start()
        try:
            produce_s = self._produce()
            delivered, consuming = self._consume()
        finally:
            self._observer.stop()
        seconds = self._seconds()
        self._books.write(self._stage.topic, f"{self._client_id}-producer", ledger, delivered)
        compared = compare(
            ledger.states,
            ledger.partitions,
            delivered.numbers,
            delivered.partitions,
            delivered.offsets,
            self._stage.starts,
        )
        stalls = [*ledger.pulse.stalls, *delivered.pulse.stalls]
        found = self._fates(delivered, compared)
        facts = Facts(
            self._settings,
            compared,
            found,
            ledger.errors,
            stalls,
            consuming.seconds,
            consuming.quiet_s,
            consuming.error,
            self._observer.verdicts,
            consuming.unread,
        )
        return VerifyResult(
            run=self._run,
            started_at=started_at,
            settings=self._settings,
            topic=self._stage.topic,
            group=self._stage.group,
            replication=self._stage.replication,
            is_topic_kept=True,
            versions=self._versions(),
            comparison=compared,
            fates=found,
            errors=ledger.errors,
            stalls=stalls,
            judgement=judge(facts),
            produce_s=produce_s,
            consume_s=consuming.seconds,
            first_s=consuming.first_s,
            seconds=seconds,
        )

    def _versions(self) -> dict[str, str]:
        return {"chronik": __version__, "client": self._client.version, "cluster": self._cluster.version_words}

    def _produce(self) -> float:
        """Sends everything. Returns how long that took."""
        ledger, settings = self._ledger, self._settings
        began_s = self._seconds()
        self._observer.watch(ledger.pulse, lambda: ledger.acknowledged, settings.messages)
        is_even = settings.spread is Spread.EVEN
        order = Sending(
            topic=self._stage.topic,
            client_id=f"{self._client_id}-producer",
            acks=settings.acks,
            is_idempotent=settings.is_idempotent,
            timeout_s=settings.send_timeout_s,
            partitions=self._stage.partitions if is_even else None,
            is_stopped=self._is_stopped,
        )
        try:
            self._client.produce(order, self._messages, ledger)
        except ProducerFailed as failed:
            ledger.errors[str(failed)] = settings.messages - ledger.sent
        if ledger.acknowledged < settings.messages:
            ledger.pulse.end(self._seconds())
            self._observer.look()
        self._observer.rest()
        return self._seconds() - began_s

    def _consume(self) -> tuple[DeliveredMessages, Consuming]:
        """Until everything is there that was sent, or the rest cannot come any more, or the time is up."""
        settings = self._settings
        began_s = self._seconds()
        delivered = DeliveredMessages(self._messages, settings.messages, self._seconds)
        self._observer.watch(delivered.pulse, lambda: delivered.distinct, self._ledger.sent)
        order = Receiving(
            self._stage.topic,
            f"{self._client_id}-consumer",
            self._stage.group,
            self._stage.starts,
            settings.max_poll_records,
        )
        error: str | None = None
        consumer: Consumer | None = None
        tail: Tail | None = None
        deadline_s = began_s + settings.timeout_s
        try:
            consumer = self._client.consumer(order)
            self._poll(consumer, delivered, deadline_s)
            if delivered.distinct == self._ledger.sent:
                tail = Tail(self._log_ends(), self._reached(delivered))
                self._read_on(consumer, delivered, tail, deadline_s)
        except ConsumerFailed as failed:
            error = str(failed)
        except Stopped:
            if consumer is not None:
                consumer.close()
            raise
        ended_s = delivered.pulse.last_s  # to have looked for more behind the last message is not its consumer's time
        if delivered.distinct < self._ledger.sent:
            ended_s = self._seconds()
            delivered.pulse.end(ended_s)
            self._observer.look()  # while the consumer is still there to be seen
        self._observer.rest()
        if consumer is not None:
            consumer.close()
        first_s = delivered.pulse.first_s
        until_first_s = None if first_s is None else first_s - began_s
        quiet_s = delivered.pulse.quiet_s(ended_s)
        return delivered, Consuming(ended_s - began_s, until_first_s, quiet_s, error, tail.unread if tail else [])

    def _poll(self, consumer: Consumer, delivered: DeliveredMessages, deadline_s: float) -> None:
        sent, patience = self._ledger.sent, Patience(self._stage.partitions, self._ends)
        is_all_acknowledged = self._ledger.acknowledged == sent
        while delivered.distinct < sent and (left_s := deadline_s - self._seconds()) > 0:
            records = consumer.poll(min(left_s, POLL_S if len(delivered) else FIRST_POLL_S))
            delivered.take(records)
            if self._is_stopped():
                raise Stopped
            if records:
                continue
            if not is_all_acknowledged and self._is_at_end(delivered):
                return
            if patience.is_over(delivered.pulse.quiet_s(self._seconds()), self._reached(delivered)):
                return

    def _read_on(self, consumer: Consumer, delivered: DeliveredMessages, tail: Tail, deadline_s: float) -> None:
        """To the end of the log: behind the last message there may be a copy of one. Where the end is a marker, or was
        compacted away, nothing comes: that is waited for no longer than makes a stall."""
        quiet_from_s = self._seconds()
        while not tail.is_read and (left_s := min(deadline_s, quiet_from_s + STALL_S) - self._seconds()) > 0:
            records = consumer.poll(min(left_s, POLL_S))
            if self._is_stopped():
                raise Stopped
            if records:
                delivered.take(records)
                tail.take(records)
                quiet_from_s = self._seconds()

    def _log_ends(self) -> dict[int, int]:
        """Where each partition's log ends now that nothing more is sent: as its leader says, else as consumers see
        it."""
        stage = self._stage
        ends = self._cluster.ends(stage.topic, stage.partitions)
        logs = self._cluster.log_ends(stage.topic, ends)
        return {partition: max(logs.get(partition, 0), ends.get(partition, 0)) for partition in logs.keys() | ends}

    def _ends(self) -> Ends:
        stage, ledger = self._stage, self._ledger
        ends = self._cluster.ends(stage.topic, stage.partitions)
        # What all in-sync replicas are known to have is below the watermark.
        is_below = self._settings.acks is VerifyAcks.ALL and ledger.acknowledged == ledger.sent
        return Ends(ends, is_below or self._cluster.is_all_visible(stage.topic, ends))

    def _reached(self, delivered: DeliveredMessages) -> dict[int, int]:
        """Up to where each partition has been read."""
        at = dict(self._stage.starts)
        at.update(zip(delivered.partitions, (offset + 1 for offset in delivered.offsets), strict=True))
        return at

    def _is_at_end(self, delivered: DeliveredMessages) -> bool:
        """Whether only messages are missing that were never acknowledged, and the log has no more to read."""
        if any(state == ACKNOWLEDGED and not delivered.has(number) for number, state in enumerate(self._ledger.states)):
            return False
        at = self._reached(delivered)
        ends = self._cluster.ends(self._stage.topic, self._stage.partitions)
        return all(partition in ends and at[partition] >= ends[partition] for partition in at)

    def _fates(self, delivered: DeliveredMessages, compared: Comparison) -> list[FateCount]:
        """Where the missing ones are, by what became of them."""
        if not compared.missing:
            return []
        numbers = list(missing(self._ledger, delivered))
        found = self._search(numbers)
        by_fate: dict[Fate, list[int]] = {}
        for number, fate in fates(numbers, self._ledger, found).items():
            by_fate.setdefault(fate, []).append(number)
        return [self._counted(fate, by_fate[fate], found) for fate in Fate if fate in by_fate]

    def _search(self, numbers: list[int]) -> MissingSearch:
        reader = open_client(another_than(self._settings.client), self._settings.bootstrap)
        scene = Scene(
            self._stage.topic, self._stage.starts, f"{self._client_id}-consumer", f"{self._client_id}-producer"
        )
        return search(self._cluster, scene, reader, self._messages, numbers, self._observer.events)

    def _counted(self, fate: Fate, numbers: list[int], found: MissingSearch) -> FateCount:
        places = [found.places.get(number) or self._ledger.place(number) for number in numbers]
        counts = Counter(place.partition for place in places if place.partition >= 0)
        first = places[0]
        told = (
            told_of(self._cluster.addresses, self._stage.topic, first, is_lost=fate is Fate.LOST)
            if fate in (Fate.LOST, Fate.NOT_VISIBLE) and self._cluster.is_chronik and first.offset >= 0
            else []
        )
        return FateCount(fate, len(numbers), dict(sorted(counts.items())), numbers[0], first, tuple(told))
