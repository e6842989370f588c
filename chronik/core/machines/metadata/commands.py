"""What the metadata machine can be asked, and what it answers.

Commands about several things (topics, resources) answer with one result for each, in the order asked: one that
is refused does not hold back the others. Whatever is random (ids) comes in with the command.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.core.errors import Code
from chronik.core.machines.machine import AnswerT_co, Command
from chronik.core.machines.metadata.records import BrokerEndpoint

USE_DEFAULT = -1
ANY_BROKER_EPOCH = -1


class ResourceType(IntEnum):
    """What settings can belong to, in Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs can do to a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class MetadataCommand(Command[AnswerT_co]):
    """One of those here, in `controller_commands` and in `features`; `machine.AnyMetadataCommand` has them all."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """How it went with one thing asked for."""

    code: Code = Code.NONE
    message: str | None = None


DONE = ChangeOutcome()


@dataclass(frozen=True, slots=True)
class RegisterBroker(MetadataCommand[int]):
    """A node is there, under this address. Answer: its broker epoch.

    In a cluster it registers fenced, and its heartbeats unfence it; alone it needs none. `has_lost_its_log`: it starts
    with an empty disk, so what it once had does not count. `has_lost_its_tail`: it has its disk, and may lack the
    last of what it acknowledged, which was not synced. Clients are given `host` and `port`, or those of the listener
    they came by in `end_points`; other nodes reach it at its internal address, which is the same where none is given.
    `principal` is that of the connection by which it registers, and never what a request says.
    """

    broker_id: int
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False
    has_lost_its_log: bool = False
    previous_epoch: int = ANY_BROKER_EPOCH  # of the last registration with the same disk
    internal_host: str = ""
    internal_port: int = 0
    has_lost_its_tail: bool = False
    end_points: tuple[BrokerEndpoint, ...] = ()
    principal: KafkaPrincipal = ANONYMOUS


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic wanted. `assignments` are (partition, replicas) pairs chosen by hand; without them we place it."""

    name: str
    topic_id: bytes
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopics(MetadataCommand[tuple["CreatedTopic", ...]]):
    """Answer: a tuple of CreatedTopic."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreateInternalTopic(MetadataCommand["CreatedTopic"]):
    """A topic of our own (`__consumer_offsets`) is needed. Answer: a CreatedTopic, also when it was there already.
    `voter_count` is said by the controller's own node: nodes that are on their way have not registered yet.
    """

    name: str
    topic_id: bytes
    voter_count: int = 1


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What became of a NewTopic. `overrides` are the settings it was given."""

    name: str
    outcome: ChangeOutcome
    topic_id: bytes = bytes(16)
    partition_count: int = -1
    replication_factor: int = -1
    overrides: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicToDelete:
    """By name or by id, not both."""

    name: str | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopics(MetadataCommand[tuple["DeletedTopic", ...]]):
    """Answer: a tuple of DeletedTopic."""

    topics: tuple[TopicToDelete, ...]


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """What became of a TopicToDelete, with the name or id that was not asked by where we know it."""

    name: str | None
    topic_id: bytes | None
    outcome: ChangeOutcome


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic is to have `count` partitions; `assignments` are the replicas of each new one, or None: we place them."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions(MetadataCommand[tuple[ChangeOutcome, ...]]):
    """Answer: a tuple of Outcome."""

    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Changes to the settings of one topic, broker or group; broker "" means all. The type may be unknown here."""

    resource_type: int
    resource_name: str
    operations: tuple[tuple[str, int, str | None], ...]  # key, ConfigOperation, value


@dataclass(frozen=True, slots=True)
class AlterConfigs(MetadataCommand[tuple[ChangeOutcome, ...]]):
    """`replace_all`: keys that are not named go back to their default. Answer: a tuple of Outcome."""

    changes: tuple[ConfigChange, ...]
    replace_all: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(MetadataCommand["ProducerIdBlock"]):
    """A node has run out of producer ids. Answer: a ProducerIdBlock."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Ids that nothing else gives out."""

    start_id: int
    end_id: int
