"""What a handler may touch.

A handler is `handle(request, caller, desk)`: it gets the newest version of its message whatever the client
sent, and returns the newest response. It raises Refused for an answer other than the one hoped for; its module's
`refuse(request, code, message)` gives that (or a fault) the shape of a response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.access.sasl import SaslLogin
from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.errors import Code, Corrupt
from chronik.core.machines.metadata.producer_ids import ProducerIds
from chronik.core.quotas.client_quotas import ClientQuotas
from chronik.core.quotas.limits import QuotaLimits
from chronik.core.records.control import Marker
from chronik.core.replica.batch_order import BatchOrder
from chronik.trace.audit import Audit, Unaudited
from chronik.trace.metrics import Metrics
from chronik.trace.observer import NOT_OBSERVED, Observation

if TYPE_CHECKING:
    from chronik.api.call import Call
    from chronik.core.access.authorizer import Authorizer
    from chronik.core.config.sections.fetch import FetchConfig
    from chronik.core.fetch_sessions import FetchSessions
    from chronik.core.log.appended import Appended
    from chronik.core.log.producers import VerificationGuard
    from chronik.core.log.segment import Slice
    from chronik.core.machines.groups.answers import OffsetsCommitted
    from chronik.core.machines.groups.commands import CommitOffsetsInTransaction, GroupCommand
    from chronik.core.machines.groups.machine import GroupsMachine
    from chronik.core.machines.metadata.commands import MetadataCommand
    from chronik.core.machines.metadata.image import MetadataImage
    from chronik.core.machines.transactions.commands import ProducerIdentity, TransactionCommand
    from chronik.core.machines.transactions.machine import TransactionsMachine
    from chronik.core.ports import Chance, Clock, Outgoing, Unread
    from chronik.core.raft.messages import LastAnswer, LogPoint
    from chronik.core.raft.view import QuorumView
    from chronik.core.records.steps import Unfinished
    from chronik.core.replica.replica import Replica
    from chronik.core.replica.throttle import Throttle
    from chronik.core.types import TopicPartition
    from chronik.wire.produce import PartitionAnswer, ProduceRequest


T = TypeVar("T")

# A view's name and arguments; its answer as JSON (http/inspect_views.py). Raises Refused.
Look: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[bytes]]


# Asks a transaction's coordinator about a partition. Raises Refused where it does not confirm that it is part of it.
Confirm: TypeAlias = Callable[["TopicPartition"], Awaitable[None]]


COLD_READS = 8  # fetches that wait for the disk at a time: each may have an answer of fetch.max.bytes in memory


class Caller(NamedTuple):
    """Who asks, and in which version."""

    client_id: str
    client_host: str
    version: int
    connection_id: int
    is_node: bool = False  # of this cluster, not a client
    node_id: int = -1  # which node the connection said it is, when it said that it is one; -1: none
    order: BatchOrder | None = None  # of its connection; None in tests of what does not depend on it
    principal: KafkaPrincipal = ANONYMOUS
    listener: str = ""  # the name of the one that took its connection
    login: SaslLogin | None = None  # of its connection, where clients log in
    is_forwarded: bool = False  # a node asks for a client: `principal` and `client_host` are that client's


class MetadataDesk(Protocol):
    """The cluster's metadata: read the image, ask for changes."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_controller(self) -> bool:
        """Whether this node decides."""

    @property
    def controller_id(self) -> int | None:
        """The node that decides; None when there is none at the moment, or no node knows."""

    def ask(self, command: MetadataCommand[T]) -> Awaitable[T]:
        """Ask the controller, wherever it is. The awaited answer comes when it is safe, and this node's image has what
        follows from it. Raises Refused."""

    def ask_here(self, command: MetadataCommand[T]) -> Awaitable[T]:
        """As `ask`, but only if this node is the controller. Raises Refused (NOT_CONTROLLER)."""

    def wait_until_applied(self, timeout_ms: int) -> Awaitable[None]:
        """On the controller: until the live brokers have applied all that this node has, or time is up."""


class GroupsDesk(Protocol):
    """The group coordinators on this node, one machine per partition of `__consumer_offsets`."""

    def ask(self, group_id: str, command: GroupCommand[T]) -> Awaitable[T]:
        """Ask the machine that holds the group. Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS)."""

    def ask_in_transaction(
        self, command: CommitOffsetsInTransaction, producer: ProducerIdentity, confirm: Confirm
    ) -> Awaitable[OffsetsCommitted]:
        """As `ask`; what is written is part of the producer's transaction, which is confirmed first where it has not
        begun yet in the partition of the group. Raises Refused (INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, too)."""

    def append_marker(
        self, partition: int, marker: Marker, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> tuple[Replica, Appended]:
        """Write to a partition of `__consumer_offsets` that a producer's transaction has ended: its offsets count from
        then on, or are gone. Raises Refused (NOT_LEADER_OR_FOLLOWER: here is no coordinator that has read its log; else
        as ReplicaDesk.append_marker)."""

    def coordinator(self, group_id: str) -> Awaitable[tuple[int, str, int]]:
        """Node id, host and port of the group's coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""

    def wait_for_partition(self, group_id: str) -> Awaitable[int]:
        """The partition of `__consumer_offsets` that has the group. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""

    @property
    def is_loading(self) -> bool:
        """Whether some groups of this node are not known yet."""

    def machines(self) -> Iterable[GroupsMachine]:
        """All machines this node holds, for listing; without those that are still being read."""


class TransactionsDesk(Protocol):
    """The transaction coordinator on this node, one machine per partition of `__transaction_state`."""

    def ask(self, transactional_id: str, command: TransactionCommand[T]) -> Awaitable[T]:
        """Ask the machine that has the id. Raises Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS)."""

    def coordinator(self, transactional_id: str) -> Awaitable[tuple[int, str, int]]:
        """Node id, host and port of the id's coordinator. Raises Refused (COORDINATOR_NOT_AVAILABLE)."""

    @property
    def is_loading(self) -> bool:
        """Whether some transactional ids of this node are not known yet."""

    def machines(self) -> Iterable[TransactionsMachine]:
        """All machines this node holds, for listing; without those that are still being read."""


class VerificationDesk(Protocol):
    """The coordinators of transactions, wherever they are (node/coordinators/transaction_verification.py)."""

    def confirm(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> Awaitable[dict[TopicPartition, Code]]:
        """By partition, NONE when it is in the producer's transaction; with `adds` it is from then on."""


class LongWorkDesk(Protocol):
    """What takes longer than others can wait (node/runtime/long_work.py)."""

    def wait_for_rest(self, begun: Unfinished[T], *, may_refuse: bool = True) -> Awaitable[T]:
        """What comes out of it in the end. Raises Refused (REQUEST_TIMED_OUT: too many wait for theirs), and what it
        raises itself."""


class ReplicaDesk(Protocol):
    """The partitions on this node."""

    def leader(self, topic: str, partition: int) -> Replica:
        """The replica that leads here. Raises Refused (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
        KAFKA_STORAGE_ERROR when it is offline)."""

    def readable(self, topic: str, partition: int) -> Replica:
        """As `leader`, or one that follows here: consumers may read from either (KIP-392)."""

    def follower_starts_at(self, replica: Replica, follower_id: int, log_start: int) -> None: ...

    def follower_fetched(self, replica: Replica, follower_id: int, fetch_offset: int, broker_epoch: int) -> None:
        """A follower has everything below this offset."""

    def append(
        self,
        replica: Replica,
        records: memoryview | bytearray,
        acks: int,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        """Append a producer's batch and have it synced; the first of a transaction with the guard of its verification.
        Raises Refused (KAFKA_STORAGE_ERROR: the disk refuses)."""

    def append_marker(
        self, replica: Replica, marker: Marker, producer_id: int, producer_epoch: int, transaction_version: int
    ) -> Appended:
        """Write that a producer's transaction has ended. Raises Refused (INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED: a later one is known)."""

    def delete_records(self, replica: Replica, offset: int) -> int:
        """Move the log start up (-1: to the watermark), here and on the followers; where it is then. Raises Refused."""

    def read_cached(self, plan: Slice) -> Outgoing | Unread | None:
        """The bytes if they are in memory, else None."""

    def wait_for_read(self, plan: Slice) -> Awaitable[bytes | Unread]:
        """Bytes that are not in memory."""

    def check_read(self, replica: Replica, plan: Slice, content: Outgoing | Unread) -> Code:
        """NONE when the bytes are what was written, or when there are none for now; else what to answer. The replica
        goes offline, unless only something has run out that will be there again."""

    def read_failed(self, replica: Replica, problem: Corrupt | OSError) -> Code:
        """The log cannot say where the bytes are: what to answer. The replica goes offline as in `check_read`."""

    @property
    def long_work(self) -> LongWorkDesk: ...

    def store_starts(self) -> Awaitable[None]:
        """Put on disk where each log starts now. Raises Refused (KAFKA_STORAGE_ERROR: the disk refuses)."""

    def held(self) -> Iterable[Replica]:
        """Every replica on this node, by topic and partition."""

    def log_directory(self) -> str: ...

    def disk_bytes(self) -> tuple[int, int]:
        """Total and free bytes of the disk below the data directory."""


class WaitingFetch(Protocol):
    """Waits for a partition to have more to read."""

    def wake(self) -> None: ...


class Watcher(Protocol):
    """Is notified of everything that happens to a partition."""

    def changed(self, replica: Replica) -> None: ...


class WaitingDesk(Protocol):
    """Answers that are not due yet (node/replication/purgatory.py)."""

    def when_safe(
        self, replica: Replica, end_offset: int, acks: int, timeout_ms: int, done: Callable[[Code], None]
    ) -> None: ...

    def when_readable(self, replicas: Iterable[Replica], reader: WaitingFetch) -> None: ...

    def stop_reading(self, replicas: Iterable[Replica], reader: WaitingFetch) -> None: ...

    def watch(self, replica: Replica, watcher: Watcher) -> None: ...

    def unwatch(self, replica: Replica, watcher: Watcher) -> None: ...

    def after_ms(self, delay_ms: int, action: Callable[[], None]) -> Any: ...

    def cancel(self, deadline: Any) -> None: ...


class HeldUp(NamedTuple):
    """A request has begun that must be answered before the next one of its connection begins: there is more to look at
    than can be looked at in one go, and what comes behind it must not overtake it."""

    on_abandoned: Callable[[], None] | None


NULL_RECORDS = memoryview(b"")  # of a partition for which a produce request has none


class PartitionBatch:
    """One partition's batch of a produce request, and where its answer goes: `answers[index]`."""

    __slots__ = ("answers", "guard", "index", "partition", "records", "topic", "until")

    def __init__(
        self, topic: str | bytes, partition: int, records: memoryview, answers: list[PartitionAnswer], index: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.records = records
        self.answers = answers
        self.index = index
        self.until: float | None = None  # in the loop's time: how long it may wait for a leader, once it has to
        self.guard: VerificationGuard | None = None  # once its transaction's coordinator has confirmed it


class PendingProduce(Protocol):
    """A produce request of which some partitions are led elsewhere."""

    route: object | None  # by which forwarding sends its batches on: its connection's, which may be closed meanwhile

    @property
    def call(self) -> Call: ...

    @property
    def request(self) -> ProduceRequest: ...

    def settle(self, batch: PartitionBatch, answer: PartitionAnswer) -> None:
        """That is what became of it."""

    def again(self, batch: PartitionBatch) -> None:
        """There is another leader now: it may even be this node."""


class ForwardingDesk(Protocol):
    """The way to other nodes (node/routing/forwarding.py)."""

    def produce(self, produce: PendingProduce, batches: list[PartitionBatch]) -> None:
        """Send each partition's batch to its leader; the request is given what became of each."""

    def ask_node(self, node_id: int, call: Call) -> Awaitable[memoryview]:
        """Another node's whole answer to this request. Raises Refused (BROKER_NOT_AVAILABLE)."""


class AppliedDesk(Protocol):
    """How far other nodes have applied the metadata (node/cluster/quorum_waits.py)."""

    def note(self, node_id: int, end_offset: int) -> None: ...


class QuorumDesk(Protocol):
    """This node's part in the quorum (node/cluster/quorum.py)."""

    @property
    def replica(self) -> Replica: ...

    @property
    def last_answers(self) -> dict[int, LastAnswer]:
        """By follower, to its fetches of the metadata log."""

    def now_ms(self) -> int:
        """In the time of the quorum."""

    @property
    def applied(self) -> AppliedDesk:
        """What other nodes have applied."""

    @property
    def leader_id(self) -> int | None: ...

    @property
    def epoch(self) -> int: ...

    def step(self, request: Any) -> Any:
        """What this node answers to another's request (core/raft/messages.py). Raises Refused."""

    def describe(self) -> QuorumView:
        """Raises Refused: only the leader knows."""

    def address_of(self, node_id: int) -> tuple[str, int] | None: ...

    def read_snapshot_part(self, point: LogPoint, position: int, length: int) -> bytes: ...

    def when_news(self, reader: Callable[[], None]) -> None: ...

    def stop_reading(self, reader: Callable[[], None]) -> None: ...

    async def add_voter(self, node_id: int, address: tuple[str, int] | None, *, is_waited_for: bool = True) -> None: ...

    async def remove_voter(self, node_id: int) -> None: ...


@dataclass
class FetchContext:
    """What only fetches need, those of consumers and those of followers."""

    config: FetchConfig
    sessions: FetchSessions
    leader_throttle: Throttle  # of what followers that are not in sync are given
    is_slow: Callable[[int], bool] = lambda connection_id: False  # whether a client does not take what it is sent
    cold_reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COLD_READS))


class TransactionContext(NamedTuple):
    """What requests of transactional producers need; nothing of it in tests of what has nothing to do with them."""

    coordinator: TransactionsDesk | None = None
    verification: VerificationDesk | None = None


NO_TRANSACTIONS = TransactionContext()


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Everything within a handler's reach."""

    node_id: int
    cluster_id: str
    clock: Clock
    chance: Chance
    metadata: MetadataDesk
    groups: GroupsDesk
    replicas: ReplicaDesk
    waiting: WaitingDesk
    fetching: FetchContext
    start: Callable[[Coroutine[Any, Any, None]], object]  # work that outlives the handler, watched by the node
    producer_ids: ProducerIds = field(default_factory=ProducerIds)  # of blocks that are this node's alone
    metrics: Metrics = field(default_factory=Metrics)
    observation: Observation = NOT_OBSERVED
    forwarding: ForwardingDesk | None = None  # None where there are no other nodes
    transactional: TransactionContext = NO_TRANSACTIONS
    quorum: QuorumDesk | None = None
    quotas: ClientQuotas = field(default_factory=lambda: ClientQuotas(QuotaLimits(), QuotasConfig()))
    audit: Audit = field(default_factory=Unaudited)
    authorizer: Authorizer | None = None  # None without access control: then there are no ACLs to speak of
    look: Look | None = None  # None where nothing looks: in the simulator
