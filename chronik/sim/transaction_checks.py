"""What is promised of transactions, and held against what readers and logs show.

- Atomicity: once a commit was acknowledged, every record of it is there, in every partition, in order; of a transaction
  that was aborted, or never asked to commit, none is; of one whose answer was lost, all or none.
- No reader of committed records meets one of a transaction that is open or aborted (Jepsen's G1a), nor a part of what a
  transaction wrote to a partition (G1b). What a transaction has read was committed by another before: no circle (G1c).
  Kafka does not keep the writes of two transactions apart (G0): the order of records differs between partitions.
- One outcome: markers of one epoch of a producer say the same wherever they are, over failovers.
- Epochs: behind a batch or marker of one epoch, a log has none of an earlier one of that producer.
- The last stable offset of a leader never moves back.
- A copy (read, write, commit offsets, in one transaction) has what its source has, once, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from chronik.core.log.scan import sound_batches
from chronik.core.records.control import read_marker
from chronik.core.records.payload import walk
from chronik.core.types import TopicPartition
from chronik.sim.story import WorldStory


class Outcome(Enum):
    OPEN = "never asked to commit"
    ASKED = "asked to commit, and not answered"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False, slots=True)
class SimTransaction:
    """As its client knows it."""

    name: str
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)  # the transactions whose records it has read
    outcome: Outcome = Outcome.OPEN

    def wrote(self, partition: TopicPartition, values: Iterable[bytes]) -> None:
        self.values.setdefault(partition, []).extend(values)


class TransactionChecks:
    """Each method that finds a broken promise raises Violation."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._transactions: dict[str, SimTransaction] = {}
        self._by_value: dict[bytes, SimTransaction] = {}
        self._at: dict[tuple[TopicPartition, int], bytes] = {}  # given to a reader of committed records
        self._place: dict[bytes, int] = {}
        self._stable: dict[tuple[TopicPartition, int], int] = {}  # by leader epoch
        self.reads: list[tuple[str, dict[TopicPartition, list[bytes]]]] = []  # by readers, from the beginning on

    @property
    def is_lost(self) -> bool:
        """Every copy of something was damaged: nothing can be said any more."""
        return False

    # --- clients

    def begin(self, name: str) -> SimTransaction:
        return self._transactions.setdefault(name, SimTransaction(name))

    def sends(self, transaction: SimTransaction, partition: TopicPartition, values: list[bytes]) -> None:
        transaction.wrote(partition, values)
        self._by_value.update(dict.fromkeys(values, transaction))

    def transactions(self) -> list[SimTransaction]:
        return list(self._transactions.values())

    def written_to(self) -> set[TopicPartition]:
        """Where any committed transaction has written."""
        committed = (one for one in self._transactions.values() if one.outcome is Outcome.COMMITTED)
        return {partition for transaction in committed for partition in transaction.values}

    def source_of(self, value: bytes) -> str:
        return self._by_value[value].name

    # --- readers

    def gave(self, who: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A record was given to a reader of committed ones."""
        transaction = self._by_value.get(value)
        if transaction is None:
            raise self._broken(f"{who}: {partition} offset {offset} has {value[:40]!r}, which nothing sent")
        if transaction.outcome in (Outcome.OPEN, Outcome.ABORTED):
            raise self._broken(
                f"{who}: {partition} offset {offset} has {value[:40]!r} of {transaction.name}: "
                f"{transaction.outcome.value}"
            )
        before = self._at.setdefault((partition, offset), value)
        if before != value:
            raise self._broken(f"{who}: {partition} offset {offset} has {value[:40]!r}, and had {before[:40]!r}")
        if self._place.setdefault(value, offset) != offset:
            raise self._broken(f"{who}: {partition} has {value[:40]!r} at {self._place[value]} and at {offset}")

    def stable_known(self, partition: TopicPartition, leader_epoch: int) -> int:
        """The furthest that this leader reported. The next one may know less until it has settled in."""
        return self._stable.get((partition, leader_epoch), 0)

    def stable(self, who: str, partition: TopicPartition, seen_offset: int, known: int, leader_epoch: int) -> None:
        """Said in an answer to a request that was sent when `known` was known."""
        if seen_offset < known:
            raise self._broken(f"{who}: the last stable offset of {partition} went back from {known} to {seen_offset}")
        key = partition, leader_epoch
        self._stable[key] = max(self._stable.get(key, 0), seen_offset)

    # --- after everything

    def whole(self, who: str, found: dict[TopicPartition, list[bytes]]) -> None:
        """These are all committed records of each partition, in order."""
        for transaction in self._transactions.values():
            self._check_atomic(who, transaction, found)
        for reader, read in self.reads:
            for partition, values in read.items():
                if values != found[partition][: len(values)]:
                    raise self._broken(f"{reader} did not meet the records of {partition} as they are")
        self._check_circles()

    def _check_atomic(self, who: str, transaction: SimTransaction, found: dict[TopicPartition, list[bytes]]) -> None:
        there = {
            partition: [value for value in found[partition] if self._by_value.get(value) is transaction]
            for partition in transaction.values
        }
        is_all, is_none = there == transaction.values, not any(there.values())
        promised = {
            Outcome.COMMITTED: is_all,
            Outcome.ASKED: is_all or is_none,
            Outcome.ABORTED: is_none,
            Outcome.OPEN: is_none,
        }
        if not promised[transaction.outcome]:
            wanted = {str(partition): len(values) for partition, values in transaction.values.items()}
            has = {str(partition): len(values) for partition, values in there.items()}
            raise self._broken(
                f"{who}: {transaction.name}, {transaction.outcome.value}, wrote {wanted}; there is {has}"
            )

    def _check_circles(self) -> None:
        """A transaction that has read what another committed came after it (G1c)."""
        done: set[str] = set()
        for start in self._transactions:
            path: list[str] = []
            open_paths = [iter((start,))]
            while open_paths:
                following = next(open_paths[-1], None)
                if following is None:
                    open_paths.pop()
                    if path:
                        done.add(path.pop())
                elif following in path:
                    raise self._broken(f"transactions have read of each other: {[*path, following]}")
                elif following not in done:
                    path.append(following)
                    open_paths.append(iter(sorted(self._transactions[following].read)))

    def copied(self, who: str, source: list[bytes], copies: list[bytes]) -> None:
        """What the copier made of a partition."""
        if source != copies:
            first = next((i for i, pair in enumerate(zip(source, copies, strict=False)) if pair[0] != pair[1]), None)
            raise self._broken(
                f"{who}: the copy of {len(source)} records has {len(copies)}, and differs from number {first} on"
            )

    def log(self, who: str, partition: TopicPartition, outcomes: dict[tuple[int, int], bool], content: bytes) -> None:
        """All bytes of a partition. `outcomes`: what the markers of an epoch said, of this and other partitions."""
        epochs: dict[int, int] = {}
        with_data: set[tuple[int, int]] = set()
        for batch in sound_batches(content, str(partition)):
            header = batch.header
            if header.producer_id < 0:
                continue
            if header.producer_epoch < epochs.get(header.producer_id, -1):
                raise self._broken(
                    f"{who}: {partition} offset {header.base_offset} is of epoch {header.producer_epoch} of producer "
                    f"{header.producer_id}, behind epoch {epochs[header.producer_id]}"
                )
            epochs[header.producer_id] = header.producer_epoch
            key = header.producer_id, header.producer_epoch
            if not header.is_control:
                with_data.add(key)
                continue
            marker = read_marker(content[batch.position : batch.position + header.size_bytes])
            if marker is None or key in with_data:
                continue  # the older protocol: many transactions of one epoch
            if outcomes.setdefault(key, marker.is_commit) != marker.is_commit:
                raise self._broken(f"{who}: {partition}: epoch {key} was both committed and aborted")

    def _broken(self, what: str) -> Exception:
        return self._story.break_promise(what)


class CommittedRecords:
    """Takes what a fetch of committed records brought, as a consumer does: without what was aborted."""

    def __init__(self, records: bytes, aborted: Iterable[tuple[int, int]], from_offset: int) -> None:
        """`aborted`: producer and first offset."""
        waiting = sorted((first, producer) for producer, first in aborted)
        left_out: set[int] = set()
        self.next_offset = from_offset
        self.found: list[tuple[int, bytes]] = []
        for batch in sound_batches(records, "an answer"):
            header = batch.header
            while waiting and waiting[0][0] <= header.last_offset:
                left_out.add(waiting.pop(0)[1])
            content = records[batch.position : batch.position + header.size_bytes]
            self.next_offset = max(self.next_offset, header.next_offset)
            if header.is_control:
                marker = read_marker(content)
                if marker is not None and not marker.is_commit:
                    left_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in left_out):
                self.found += [(r.offset, r.value or b"") for r in walk(content) if r.offset >= from_offset]
