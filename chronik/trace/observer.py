"""What request handlers, the purgatory and replicas report of what they do: named facts, to whatever observes.

They report to the observer that an `Observation` has at the moment. While nothing is traced that is `UNOBSERVED`, and a
fact costs one call that does nothing; where its arguments are dear to make, `wants` or `is_observing` is asked first.
While something is traced, the observer is `trace.steps.Steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chronik.core.fetch_sessions import SessionPartition
    from chronik.core.log.appended import Appended
    from chronik.core.log.segment import Slice
    from chronik.core.machines.groups.pending_offsets import OffsetOwner
    from chronik.core.machines.transactions.transaction import Transaction
    from chronik.core.records.control import Marker
    from chronik.core.replica.replica import Replica
    from chronik.core.types import Buffer, TopicPartition


class ObservedClient(Protocol):
    """The client of a request (api.context.Caller)."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def connection_id(self) -> int: ...

    @property
    def principal(self) -> object: ...


class FetchAsked(Protocol):
    """The limits of a fetch (wire.fetch.FetchRequest)."""

    @property
    def max_wait_ms(self) -> int: ...

    @property
    def min_bytes(self) -> int: ...

    @property
    def isolation_level(self) -> int: ...


class FetchPart(Protocol):
    """One partition of a fetch (api.fetch.Part)."""

    @property
    def asked(self) -> SessionPartition: ...

    @property
    def replica(self) -> Replica | None: ...

    @property
    def slice(self) -> Slice | None: ...


class FetchObserver(Protocol):
    """Observes one consumer's fetch, from request to response."""

    def waits(self, parts: Sequence[FetchPart]) -> None:
        """There is too little to give, so it waits."""

    def answered(self, part: FetchPart, size_bytes: int) -> None:
        """What it gives of a partition, and so much of it."""

    def ended(self) -> None:
        """It waits no longer."""

    def dropped(self) -> None:
        """Its client is gone before it was answered."""


class Observer(Protocol):
    """Takes facts."""

    @property
    def is_observing(self) -> bool: ...

    def wants(self, topic: str, /) -> bool:
        """Whether facts of this topic are wanted."""

    def now_ns(self) -> int: ...

    # --- producing

    def appended(
        self,
        replica: Replica,
        acks: int,
        client: ObservedClient,
        began_ns: int,
        watermark_before: int,
        appended: Appended,
        records: Buffer,
    ) -> None:
        """A batch is in the log, or was already. Time and watermark are those before: both may have gone on. To be
        reported only of topics that are wanted."""

    def batch_refused(self, replica: Replica, client: ObservedClient, base_offset: int) -> None:
        """A batch that is in the log is refused nevertheless: it did not become safe in time."""

    def hung_up(self, connection_id: int) -> None:
        """A connection ended while responses to its batches were due."""

    # --- replicating

    def replicated(self, replica: Replica, follower: int, from_offset: int, to_offset: int) -> None:
        """A follower says how far it is: perhaps no further than before."""

    def watermark_moved(self, replica: Replica) -> None:
        """The replica is safe further than before, and what waited for that is answered; its watermark may be the
        same."""

    def leader_changed(self, replica: Replica, leader_before: int, leader_epoch_before: int) -> None: ...

    def in_sync_changed(self, replica: Replica, before: Sequence[int]) -> None:
        """The set may be another than before; reported by the leader."""

    # --- consuming

    def fetch(self, request: FetchAsked, client: ObservedClient) -> FetchObserver | None:
        """A consumer asks; what observes its fetch, if anything does."""

    def committed(self, topic: str, partition: int, group: str, client: ObservedClient, offset: int) -> None: ...

    # --- responses

    def refused(
        self,
        api: str,
        client: ObservedClient,
        code: int,
        reason: str | None,
        topic: str | None = None,
        partition: int = -1,
        leader: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        """A request, or what it says of a topic or partition, is refused."""

    def metadata_told(
        self, topic: str, client: ObservedClient, brokers: Iterable[int], controller: int, leaders: Iterable[int]
    ) -> None:
        """What a Metadata response says of a topic."""

    # --- groups

    def group_joined(self, group: str, member_id: str, client_id: str, host: str) -> None: ...

    def group_left(self, group: str, member_id: str, client_id: str, host: str, reason: str) -> None: ...

    def group_changed(self, group: str, state_before: str, state: str, generation: int, members: int) -> None: ...

    def reader_heard(self, group: str, client_id: str, host: str) -> None:
        """The fetches of this client are this group's."""

    def reader_left(self, group: str, client_id: str, host: str) -> None: ...

    # --- transactions

    def transaction_begun(self, transaction: Transaction) -> None: ...

    def transaction_partition_added(self, transaction: Transaction, partition: TopicPartition) -> None: ...

    def transaction_prepared(self, transaction: Transaction, reason: str, open_ms: int) -> None:
        """It is decided how it ends. The decision is in its coordinator's log, and not yet durable."""

    def transaction_marked(
        self, replica: Replica, producer_id: int, producer_epoch: int, marker: Marker, offset: int
    ) -> None:
        """Its marker is in a partition's log."""

    def transaction_completed(self, transaction: Transaction, took_ms: int) -> None: ...

    def offset_pending(self, owner: OffsetOwner, producer_id: int, offset: int) -> None: ...

    def offset_committed(self, owner: OffsetOwner, producer_id: int, offset: int) -> None:
        """By its transaction."""

    def offset_dropped(self, owner: OffsetOwner, producer_id: int, offset: int, reason: str) -> None: ...


class Unobserved:
    """Takes facts and does nothing."""

    __slots__ = ()

    is_observing = False

    def wants(self, topic: str, /) -> bool:
        return False

    def now_ns(self) -> int:
        return 0

    def _ignore(self, *args: object) -> None:
        pass

    def fetch(self, request: FetchAsked, client: ObservedClient) -> FetchObserver | None:
        return None

    def watermark_moved(self, replica: Replica) -> None:
        pass

    appended = batch_refused = hung_up = replicated = leader_changed = in_sync_changed = _ignore
    committed = refused = metadata_told = _ignore
    group_joined = group_left = group_changed = reader_heard = reader_left = _ignore
    transaction_begun = transaction_partition_added = transaction_prepared = transaction_marked = _ignore
    transaction_completed = offset_pending = offset_committed = offset_dropped = _ignore


UNOBSERVED: Observer = Unobserved()


class Observation(Protocol):
    """Where the observer of the moment is found: it is another when the trace is switched on or off."""

    @property
    def observer(self) -> Observer: ...


class NotObserved:
    """The observation of what is never observed: parts by themselves, in tests."""

    observer: Observer = UNOBSERVED


NOT_OBSERVED: Observation = NotObserved()
