"""Transactional clients of a simulated world, of both protocols: writers, a copier, and readers of committed records.

With the older protocol (before KIP-890) a client adds partitions and groups to its transaction by itself, and its epoch
stays from one transaction to the next. There a late copy of a request looks like one of the next transaction (F61): so
after an answer that was lost these clients begin anew with an epoch of their own, as careful ones do. With transaction
version 2 every end raises the epoch, and they need not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from chronik.core.errors import Code
from chronik.core.records.batch import TRANSACTIONAL_BIT
from chronik.core.records.payload import KeyValue, build
from chronik.core.types import TopicPartition
from chronik.sim.client import SimClient, TryAgain, milliseconds
from chronik.sim.link import SimLink, part_of
from chronik.sim.routes import Address
from chronik.sim.transaction_checks import CommittedRecords, Outcome, SimTransaction, TransactionChecks

GROUP = "copiers"
READ_COMMITTED = 1
EVERYTHING, STABLE = 0, 1  # isolation levels of list-offsets
PRODUCE_MS = 5_000
# The transaction is over for this client: it was fenced, its time was up, or a leader knows less than it should.
LOST = frozenset(
    (
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.INVALID_TXN_STATE,
        Code.TRANSACTION_ABORTABLE,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
    )
)
AGAIN = frozenset((Code.CONCURRENT_TRANSACTIONS, Code.NETWORK_EXCEPTION, Code.NOT_ENOUGH_REPLICAS))


class TransactionLost(Exception):
    """It cannot be ended by this client any more."""


class TransactionalClient(SimClient):
    """Carries out one transaction after the other. What it was about to do is kept over lost connections."""

    checks: TransactionChecks
    transactional_id: str
    adds_by_itself: bool  # the older protocol
    timeout_ms: int
    is_hasty = False
    _producer: tuple[int, int] | None = None
    _must_begin_anew = False  # an answer was lost
    _number = 0  # of transactions begun
    _current: SimTransaction | None = None
    _added: set[str]
    _sequences: dict[TopicPartition, int]
    _late: asyncio.Task[None]  # what an instance that is thought to be dead does yet

    def is_in_vain(self) -> bool:
        return self.checks.is_lost

    def make_haste(self) -> None:
        self.is_hasty = True

    async def leisure(self, longest_s: float) -> None:
        await asyncio.sleep(self.chance.between(0, longest_s * (0.1 if self.is_hasty else 1)))

    # --- the coordinator

    @property
    def _key(self) -> str:
        return f"transactional id {self.transactional_id}"

    async def _ask_coordinator(self, name: str, **fields: Any) -> Any:
        """Raises OSError and TryAgain. An answer that was lost is remembered."""
        key = self._key
        if key not in self.routes.coordinators:
            found = await self.ask("find_coordinator", key=self.transactional_id, key_type=1)
            self.check(found.error_code, f"which node coordinates {self.transactional_id}")
            self.routes.coordinators[key] = (found.host, found.port)
        return await self._ask_carefully(name, self.routes.coordinators[key], **fields)

    async def _ask_carefully(self, name: str, to: Any, **fields: Any) -> Any:
        try:
            return await self.ask(name, to, **fields)
        except OSError:
            self._must_begin_anew = True
            raise

    def _check(self, code: Code, what: str) -> None:
        """Raises TransactionLost, TryAgain or Violation."""
        if code in LOST:
            raise TransactionLost(f"{what}: {code.name}")
        self.check(code, what, AGAIN)

    async def begin_producer(self) -> None:
        """A new epoch: what this id has left open is aborted."""
        answer = await self._ask_coordinator(
            "init_producer_id",
            transactional_id=self.transactional_id,
            transaction_timeout=milliseconds(self.timeout_ms),
        )
        self.check(answer.error_code, f"a producer id for {self.transactional_id}", AGAIN)
        self._begin_epoch(answer.producer_id, answer.producer_epoch)
        self._must_begin_anew = False

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if self._producer != (producer_id, epoch):
            self._producer = producer_id, epoch
            self._sequences = {}

    @property
    def _identity(self) -> dict[str, Any]:
        assert self._producer is not None
        producer_id, epoch = self._producer
        return {"transactional_id": self.transactional_id, "producer_id": producer_id, "producer_epoch": epoch}

    # --- a transaction

    def begin(self) -> SimTransaction:
        self._number += 1
        self._added = set()
        self._current = self.checks.begin(f"{self.name}-{self._number}")
        return self._current

    async def write(self, partition: TopicPartition, values: list[bytes]) -> None:
        """One batch; sent again until it is answered. Raises TransactionLost and TryAgain."""
        if self.adds_by_itself and str(partition) not in self._added:
            await self._until_answered(lambda: self._add_partition(partition))
            self._added.add(str(partition))
        assert self._producer is not None
        producer_id, epoch = self._producer
        batch = build(
            [KeyValue(None, value) for value in values],
            self.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences.get(partition, 0),
            attributes=TRANSACTIONAL_BIT,
        )
        await self._until_answered(lambda: self._produce(partition, bytes(batch)))
        self._sequences[partition] = self._sequences.get(partition, 0) + len(values)

    async def _until_answered(self, step: Callable[[], Any]) -> None:
        while True:
            try:
                await step()
                return
            except (OSError, TryAgain) as problem:
                self.hang_up()
                await self.pause(problem)
                if self.is_in_vain():
                    raise TransactionLost("it may be refused for ever") from None

    async def _add_partition(self, partition: TopicPartition) -> None:
        topic = part_of("add_partitions_to_txn_v3", "v3_and_below_topics")
        answer = await self._ask_coordinator(
            "add_partitions_to_txn_v3",
            **{f"v3_and_below_{key}": value for key, value in self._identity.items()},
            v3_and_below_topics=(topic(name=partition.topic, partitions=(partition.partition,)),),
        )
        code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        self._check(code, f"{partition} in {self.transactional_id}")

    async def _produce(self, partition: TopicPartition, batch: bytes) -> None:
        name = "produce" if self.adds_by_itself else "produce_v12"
        topic, part = part_of(name, "topic_data"), part_of(name, "topic_data", "partition_data")
        answer = await self._ask_carefully(
            name,
            await self.leader_of(partition),
            transactional_id=self.transactional_id,
            acks=-1,
            timeout=milliseconds(PRODUCE_MS),
            topic_data=(topic(name=partition.topic, partition_data=(part(index=partition.partition, records=batch),)),),
        )
        self._check(answer.responses[0].partition_responses[0].error_code, f"produce to {partition}")

    async def commit_offset(self, partition: TopicPartition, offset: int) -> None:
        if self.adds_by_itself:
            await self._until_answered(self._add_group)
        await self._until_answered(lambda: self._commit_offset(partition, offset))

    async def _add_group(self) -> None:
        answer = await self._ask_coordinator("add_offsets_to_txn", **self._identity, group_id=GROUP)
        self._check(answer.error_code, f"{GROUP} in {self.transactional_id}")

    async def _commit_offset(self, partition: TopicPartition, offset: int) -> None:
        name = "txn_offset_commit_v4" if self.adds_by_itself else "txn_offset_commit"
        topic, part = part_of(name, "topics"), part_of(name, "topics", "partitions")
        wanted = part(partition_index=partition.partition, committed_offset=offset, committed_metadata="")
        answer = await self._ask_carefully(
            name,
            await self.coordinator_of(GROUP),
            **self._identity,
            group_id=GROUP,
            topics=(topic(name=partition.topic, partitions=(wanted,)),),
        )
        self._check(answer.topics[0].partitions[0].error_code, f"offsets of {partition}")

    async def end(self, *, is_commit: bool) -> None:
        """Raises TransactionLost and TryAgain."""
        transaction = self._current
        assert transaction is not None
        if is_commit:
            transaction.outcome = Outcome.ASKED  # from now on a reader may see it
        await self._until_answered(lambda: self._end(is_commit))
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        self.story.count(b"%s %s" % (transaction.name.encode(), transaction.outcome.name.encode()))
        self._current = None

    async def _end(self, is_commit: bool) -> None:
        answer = await self._ask_coordinator(self._end_name, **self._identity, committed=is_commit)
        self._check(answer.error_code, f"the end of {self.transactional_id}")
        if not self.adds_by_itself:
            self._begin_epoch(answer.producer_id, answer.producer_epoch)

    @property
    def _end_name(self) -> str:
        return "end_txn_v4" if self.adds_by_itself else "end_txn"

    async def ready(self) -> None:
        """There is a producer that may begin a transaction."""
        if self._producer is None or self._current is not None or (self._must_begin_anew and self.adds_by_itself):
            await self.begin_producer()
            self._current = None

    async def send_and_forget(self, is_commit: bool) -> None:
        """End it without waiting for the answer, as a process that is killed then, or that was only thought to be dead:
        another instance takes over meanwhile."""
        assert self._current is not None
        if is_commit:
            self._current.outcome = Outcome.ASKED
        address = self.routes.coordinators.get(self._key)
        if address is not None and self.chance.happens(0.5):
            late = self._end_late(address, self.chance.between(0, 1.5), **self._identity, committed=is_commit)
            self._late = asyncio.get_running_loop().create_task(late)
        else:
            try:
                async with asyncio.timeout(self.chance.between(0, 0.02)):
                    await self._end(is_commit)
            except (TimeoutError, OSError, TryAgain, TransactionLost) as problem:
                self.story.tell(self.name, f"is gone: {problem!r}", is_chatter=True)
        self.hang_up()
        self._must_begin_anew = True

    async def _end_late(self, address: Address, delay_s: float, **fields: Any) -> None:
        await asyncio.sleep(delay_s)
        try:
            link = await SimLink.open(self.name, self.story, self.network, address)
            await link.ask(self._end_name, **fields)
            link.abort()
        except OSError as problem:
            self.story.tell(self.name, f"is gone for good: {problem!r}", is_chatter=True)


class TransactionalWriter(TransactionalClient):
    """Writes to several partitions in each transaction; commits, aborts, or is killed in the middle."""

    partitions: list[TopicPartition]
    count: int
    pace_s: float

    async def attempt(self) -> None:
        while self._number < self.count and not self.is_in_vain():
            await self.ready()
            try:
                await self._one()
            except TransactionLost as problem:
                self.story.tell(self.name, f"{problem}", is_chatter=True)
            await self.leisure(2 * self.pace_s)

    async def _one(self) -> None:
        transaction = self.begin()
        for step in range(1 + self.chance.below(4)):
            partition = self.chance.one_of(self.partitions)
            count = 1 + self.chance.below(3)
            values = [b"%s:%d:%d:%s" % (transaction.name.encode(), step, i, b"x" * 9) for i in range(count)]
            self.checks.sends(transaction, partition, values)
            await self.write(partition, values)
            if self.chance.happens(0.1):
                await self.leisure(1.0)
        match self.chance.weighted({"commit": 6, "abort": 2, "killed": 1, "killed at the end": 1}):
            case "commit":
                await self.end(is_commit=True)
            case "abort":
                await self.end(is_commit=False)
            case "killed":
                self.hang_up()
            case _:
                await self.send_and_forget(is_commit=self.chance.happens(0.7))


class Copier(TransactionalClient):
    """Reads committed records, writes them to another topic, and commits how far it has read, in one transaction."""

    pairs: dict[TopicPartition, TopicPartition]  # from, to
    is_over: Callable[[], bool]
    _positions: dict[TopicPartition, int] | None = None

    async def attempt(self) -> None:
        while not self.is_in_vain():
            if self._positions is None and self.chance.happens(0.5):
                # Before the earlier instance is fenced: its transaction may commit yet, so its offset is not stable.
                self._positions = await self._committed()
                await self.leisure(1.0)
            await self.ready()
            if self._positions is None:
                self._positions = await self._committed()
            was_over, has_copied = self.is_over(), False
            for source, target in self.pairs.items():
                has_copied |= await self._copy(source, target)
            if was_over and not has_copied and await self._is_at_end():
                return
            await self.leisure(0.2)

    async def _copy(self, source: TopicPartition, target: TopicPartition) -> bool:
        """Whether there was anything."""
        assert self._positions is not None
        position = self._positions[source]
        read = await fetch_committed(self, self.checks, source, position, self.chance.one_of((300, 2_000, 100_000)))
        if read.next_offset == position:
            return False
        await self.ready()
        try:
            transaction = self.begin()
            transaction.read.update(self.checks.source_of(value) for _, value in read.found)
            copies = [copy_of(value) for _, value in read.found]
            if copies:
                self.checks.sends(transaction, target, copies)
                await self.write(target, copies)
            await self.commit_offset(source, read.next_offset)
            if self.chance.happens(0.1):
                await self.send_and_forget(is_commit=True)
                self._positions = None
                raise TryAgain("another instance takes over")
            await self.end(is_commit=not self.chance.happens(0.1))
        except TransactionLost as problem:
            self._positions = None
            raise TryAgain(str(problem)) from problem
        if transaction.outcome is Outcome.COMMITTED:
            self._positions[source] = read.next_offset
        return True

    async def _committed(self) -> dict[TopicPartition, int]:
        """What is committed, and stable: an open transaction of an earlier instance may change it."""
        group, topic = part_of("offset_fetch", "groups"), part_of("offset_fetch", "groups", "topics")
        topics = tuple(topic(name=name.topic, partition_indexes=(name.partition,)) for name in self.pairs)
        wanted = group(group_id=GROUP, member_id=None, member_epoch=-1, topics=topics)
        to = await self.coordinator_of(GROUP)
        answer = (await self.ask("offset_fetch", to, groups=(wanted,), require_stable=True)).groups[0]
        self.check(answer.error_code, "reading commits")
        found: dict[TopicPartition, int] = {}
        for of_topic in answer.topics:
            for part in of_topic.partitions:
                self.check(part.error_code, "reading a commit", frozenset((Code.UNSTABLE_OFFSET_COMMIT,)))
                found[TopicPartition(of_topic.name, part.partition_index)] = max(part.committed_offset, 0)
        return found

    async def _is_at_end(self) -> bool:
        assert self._positions is not None
        ends = [await latest(self, name, EVERYTHING) for name in self.pairs]
        return ends == list(self._positions.values())


class CommittedReader(SimClient):
    """Reads committed records of all partitions, from the beginning on, while they are written."""

    checks: TransactionChecks
    partitions: list[TopicPartition]
    is_over: Callable[[], bool]
    _read: dict[TopicPartition, list[bytes]]
    _positions: dict[TopicPartition, int]

    def is_in_vain(self) -> bool:
        return self.checks.is_lost

    async def attempt(self) -> None:
        self.__dict__.setdefault("_read", {name: [] for name in self.partitions})
        positions = self.__dict__.setdefault("_positions", dict.fromkeys(self.partitions, 0))
        while not self.is_over() and not self.is_in_vain():
            for name in self.partitions:
                size = self.chance.one_of((200, 2_000, 100_000))
                got = await fetch_committed(self, self.checks, name, positions[name], size)
                positions[name] = got.next_offset
                self._read[name] += [value for _, value in got.found]
            await asyncio.sleep(self.chance.between(0, 0.3))
        self.checks.reads.append((self.name, self._read))


class TransactionAuditor(SimClient):
    """After everything: all transactions are decided, and each is there or not, as was promised."""

    checks: TransactionChecks
    partitions: list[TopicPartition]
    pairs: dict[TopicPartition, TopicPartition]

    def is_in_vain(self) -> bool:
        return self.checks.is_lost

    async def attempt(self) -> None:
        if self.is_in_vain():
            return
        found: dict[TopicPartition, list[bytes]] = {}
        outcomes: dict[tuple[int, int], bool] = {}
        for name in self.partitions:
            end, stable = await latest(self, name, EVERYTHING), await latest(self, name, STABLE)
            if stable < end:  # bounded by the world's patience with this auditor
                raise TryAgain(f"{name} is stable up to {stable} of {end}")
            found[name] = await self._read(name, end)
            self.checks.log(self.name, name, outcomes, await self._bytes(name, end))
        self.checks.whole(self.name, found)
        for source, target in self.pairs.items():
            self.checks.copied(f"{self.name}: {source}", [copy_of(value) for value in found[source]], found[target])

    async def _read(self, name: TopicPartition, end: int) -> list[bytes]:
        position, values = 0, list[bytes]()
        while position < end:
            got = await fetch_committed(self, self.checks, name, position, 100_000)
            if got.next_offset == position:
                raise TryAgain(f"{name} has nothing from {position} on, and is stable up to {end}")
            position = got.next_offset
            values += [value for _, value in got.found]
        return values

    async def _bytes(self, name: TopicPartition, end: int) -> bytes:
        position, content = 0, b""
        while position < end:
            part = await fetch(self, name, position, 100_000, EVERYTHING)
            got = CommittedRecords(part.records or b"", (), position)
            if got.next_offset == position:
                raise TryAgain(f"{name} has nothing from {position} on, and ends at {end}")
            position, content = got.next_offset, content + part.records
        return content


def copy_of(value: bytes) -> bytes:
    return b"copy of " + value


async def fetch(client: SimClient, name: TopicPartition, offset: int, max_bytes: int, isolation: int) -> Any:
    """Raises OSError and TryAgain."""
    topic, partition = part_of("fetch", "topics"), part_of("fetch", "topics", "partitions")
    place = await client.place_of(name)
    wanted = partition(
        partition=name.partition,
        current_leader_epoch=place.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    answer = await client.ask(
        "fetch",
        await client.leader_of(name),
        max_wait=milliseconds(50),
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=(topic(topic=name.topic, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )
    client.check(answer.error_code, "fetch")
    part = answer.responses[0].partitions[0]
    client.check(part.error_code, f"reading {name} from {offset}")
    return part


async def fetch_committed(
    client: SimClient, checks: TransactionChecks, name: TopicPartition, offset: int, max_bytes: int
) -> CommittedRecords:
    """Committed records of a partition, held against what is promised of them. Raises OSError and TryAgain."""
    epoch = (await client.place_of(name)).leader_epoch
    known = checks.stable_known(name, epoch)
    part = await fetch(client, name, offset, max_bytes, READ_COMMITTED)
    checks.stable(client.name, name, part.last_stable_offset, known, epoch)
    aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
    got = CommittedRecords(part.records or b"", aborted, offset)
    if got.next_offset > max(part.last_stable_offset, offset):
        raise client.story.break_promise(
            f"{client.name}: {name} gave up to {got.next_offset}, and is stable up to {part.last_stable_offset}"
        )
    for place, value in got.found:
        checks.gave(client.name, name, place, value)
    return got


async def latest(client: SimClient, name: TopicPartition, isolation: int) -> int:
    topic, partition = part_of("list_offsets", "topics"), part_of("list_offsets", "topics", "partitions")
    epoch = (await client.place_of(name)).leader_epoch
    wanted = partition(partition_index=name.partition, current_leader_epoch=epoch, timestamp=-1)
    asked: Any = (topic(name=name.topic, partitions=(wanted,)),)
    to = await client.leader_of(name)
    answer = await client.ask("list_offsets", to, replica_id=-1, isolation_level=isolation, topics=asked)
    part = answer.topics[0].partitions[0]
    client.check(part.error_code, f"the latest offset of {name}")
    return int(part.offset)
