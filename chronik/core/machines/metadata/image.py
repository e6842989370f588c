"""The cluster as its metadata log describes it: brokers, topics, partitions, settings.

One image lives in each node. It is changed only by `apply`, one record after the other, and read by all parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from chronik.core.config.group import GROUP_SETTINGS
from chronik.core.config.node import NODE_SETTINGS, NodeConfig
from chronik.core.config.topic import TOPIC_SETTINGS, TopicConfig
from chronik.core.config.without_effect import WITHOUT_EFFECT
from chronik.core.machines.metadata.access_image import AccessImage
from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.holdings import Holdings
from chronik.core.machines.metadata.names import collision_key, is_internal
from chronik.core.machines.metadata.partition import Partition, changed, written
from chronik.core.machines.metadata.records import (
    UNFENCE,
    AccessRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    end_points,
)
from chronik.core.quotas.entities import entity_of
from chronik.core.quotas.limits import QuotaLimits

__all__ = ["ALL_BROKERS", "Broker", "MetadataImage", "Partition", "Topic"]

ALL_BROKERS = ""
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Broker:
    """A node that has registered. A fenced one leads nothing and is not shown to clients. One that is shutting down
    is shown, and leads nothing either."""

    id: int
    epoch: int
    incarnation_id: bytes
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    is_shutting_down: bool = False
    internal_host: str = ""  # where other nodes reach it
    internal_port: int = 0
    end_points: tuple[BrokerEndpoint, ...] = ()  # where clients reach it, by listener; the first is `host` and `port`
    principal: str = ""  # as what it registered; '' where connections between nodes do not say

    def reached_by(self, listener: str) -> tuple[str, int] | None:
        """Where a client that came by this listener reaches it; None: it has none of that name. With one for all, its
        name does not matter."""
        for end_point in self.end_points:
            if end_point.name == listener:
                return end_point.host, end_point.port
        return (self.host, self.port) if len(self.end_points) < 2 else None

    @property
    def is_active(self) -> bool:
        """It may lead, and be in sync."""
        return not (self.is_fenced or self.is_shutting_down)


@dataclass(slots=True)
class Topic:
    """A topic; its partitions by number."""

    name: str
    id: bytes
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        """Of a partition that moves: how many replicas it will have then."""
        first = self.partitions[0] if self.partitions else None
        return 0 if first is None else sum(replica not in first.removing for replica in first.replicas)


class MetadataImage:
    """What the metadata log says, up to the last record applied."""

    def __init__(self, cluster_id: str, node: NodeConfig) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.holdings = Holdings()
        self.access = AccessImage()
        self.quotas = QuotaLimits()
        # Up to which offset of the metadata log the records are in here: with it one can tell whether anything
        # changed, and two nodes that have the same version have the same image.
        self.version = 0
        self._topics_by_id: dict[bytes, Topic] = {}
        self._names_by_collision_key: dict[str, str] = {}
        self._topic_overrides: dict[str, dict[str, str]] = {}
        self._broker_overrides: dict[str, dict[str, str]] = {}
        self._group_overrides: dict[str, dict[str, str]] = {}
        self._started_with = node
        self._node_config = node
        self._topic_configs: dict[str, TopicConfig] = {}  # made when asked for, dropped when a setting changes
        self._default_topic_config: TopicConfig | None = None  # one for all topics that set nothing

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return self._topics_by_id.get(topic_id)

    def topic_by_name_or_id(self, topic: str | bytes) -> Topic | None:
        """As requests name it: by name, or by id in their newer versions."""
        return self._topics_by_id.get(topic) if isinstance(topic, bytes) else self.topics.get(topic)

    def colliding(self, name: str) -> str | None:
        """The topic whose name differs from this one only in '.' and '_'."""
        key = collision_key(name)
        return None if key is None else self._names_by_collision_key.get(key)

    def partition(self, name_or_id: str | bytes, number: int) -> Partition | None:
        topic = self.topic_by_name_or_id(name_or_id)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def live_brokers(self) -> Iterator[Broker]:
        """Those that are not fenced, by id."""
        return (broker for _, broker in sorted(self.brokers.items()) if not broker.is_fenced)

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead, and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @property
    def node_config(self) -> NodeConfig:
        """This node's settings as they are now: those it was started with, and what was altered since."""
        return self._node_config

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """The settings a topic has of its own, as text."""
        return self._topic_overrides.get(name, _NOTHING)

    def broker_overrides(self, name: str) -> Mapping[str, str]:
        """What was altered for one broker, or for all of them (`ALL_BROKERS`)."""
        return self._broker_overrides.get(name, _NOTHING)

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The settings a group has of its own, as text."""
        return self._group_overrides.get(group_id, _NOTHING)

    @property
    def group_overrides_count(self) -> int:
        """How many groups have settings of their own."""
        return len(self._group_overrides)

    def overrides(self) -> Iterator[tuple[ResourceType, str, Mapping[str, str]]]:
        """Every topic, broker and group that has settings of its own."""
        for kind, all_overrides in (
            (ResourceType.TOPIC, self._topic_overrides),
            (ResourceType.BROKER, self._broker_overrides),
            (ResourceType.GROUP, self._group_overrides),
        ):
            for name, values in all_overrides.items():
                yield kind, name, values

    def topic_config(self, name: str) -> TopicConfig:
        """The settings in force for a topic on this node."""
        if name not in self._topic_overrides:
            if self._default_topic_config is None:
                self._default_topic_config = TopicConfig.from_overrides(self._node_config, _NOTHING)
            return self._default_topic_config
        config = self._topic_configs.get(name)
        if config is None:
            config = TopicConfig.from_overrides(self._node_config, self._topic_overrides[name])
            self._topic_configs[name] = config
        return config

    def copy(self) -> MetadataImage:
        """An image that goes its own way. Partitions are values, so both share them."""
        other = MetadataImage(self.cluster_id, self._started_with)
        other.brokers, other.features = dict(self.brokers), dict(self.features)
        other.next_producer_id, other.version = self.next_producer_id, self.version
        other.topics = {name: Topic(name, topic.id, list(topic.partitions)) for name, topic in self.topics.items()}
        other.holdings = self.holdings.copy()
        other._topics_by_id = {topic.id: topic for topic in other.topics.values()}
        other._names_by_collision_key = dict(self._names_by_collision_key)
        other._topic_overrides = {name: dict(values) for name, values in self._topic_overrides.items()}
        other._broker_overrides = {name: dict(values) for name, values in self._broker_overrides.items()}
        other._group_overrides = {name: dict(values) for name, values in self._group_overrides.items()}
        other.access = self.access.copy()
        other.quotas = self.quotas.copy()
        other._broker_configs_changed()
        return other

    def refill(self, records: Iterable[MetadataRecord], version: int) -> None:
        """Begin anew with what a snapshot says: this node fell behind. The image stays the same object."""
        self.brokers, self.topics, self.features = {}, {}, {}
        self.next_producer_id = 0
        self.holdings = Holdings()
        self.access.clear()
        self.quotas.clear()
        self._topics_by_id, self._names_by_collision_key = {}, {}
        self._topic_overrides, self._broker_overrides, self._group_overrides = {}, {}, {}
        self._broker_configs_changed()
        for record in records:
            self._apply(record)
        self.version = version

    def apply(self, record: MetadataRecord) -> None:
        """The only thing that changes an image."""
        self._apply(record)
        self.version += 1

    @singledispatchmethod
    def _apply(self, record: MetadataRecord) -> None:
        raise TypeError(f"no metadata record: {record!r}")

    @_apply.register
    def _(self, record: RegisterBrokerRecord) -> None:
        for_clients, internal = end_points(record)
        self.brokers[record.broker_id] = Broker(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            host=for_clients[0].host,
            port=for_clients[0].port,
            rack=record.rack,
            is_fenced=record.fenced,
            is_shutting_down=record.in_controlled_shutdown,
            internal_host=internal.host,
            internal_port=internal.port,
            end_points=for_clients,
            principal=record.principal,
        )

    @_apply.register
    def _(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    @_apply.register
    def _(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self.brokers[record.broker_id]
        self.brokers[record.broker_id] = replace(
            broker,
            is_fenced=record.fenced != UNFENCE if record.fenced else broker.is_fenced,
            is_shutting_down=bool(record.in_controlled_shutdown) or broker.is_shutting_down,
        )

    @_apply.register
    def _(self, record: TopicRecord) -> None:
        topic = Topic(record.name, record.topic_id)
        self.topics[record.name] = topic
        self._topics_by_id[record.topic_id] = topic
        key = collision_key(record.name)
        if key is not None:
            self._names_by_collision_key[key] = record.name

    @_apply.register
    def _(self, record: PartitionRecord) -> None:
        partitions = self._topics_by_id[record.topic_id].partitions
        partition = written(record)
        if record.partition_id == len(partitions):
            partitions.append(partition)
        else:
            self.holdings.remove(record.topic_id, partitions[record.partition_id])
            partitions[record.partition_id] = partition
        self.holdings.add(record.topic_id, partition)

    @_apply.register
    def _(self, record: PartitionChangeRecord) -> None:
        partitions = self._topics_by_id[record.topic_id].partitions
        old = partitions[record.partition_id]
        partitions[record.partition_id] = changed(old, record)
        self.holdings.change(record.topic_id, old, partitions[record.partition_id])

    @_apply.register
    def _(self, record: RemoveTopicRecord) -> None:
        topic = self._topics_by_id.pop(record.topic_id)
        del self.topics[topic.name]
        for partition in topic.partitions:
            self.holdings.remove(topic.id, partition)
        key = collision_key(topic.name)
        if key is not None:
            self._names_by_collision_key.pop(key, None)
        self._topic_overrides.pop(topic.name, None)
        self._topic_configs.pop(topic.name, None)

    @_apply.register
    def _(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level

    @_apply.register
    def _(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    @_apply.register
    def _(self, record: ClientQuotaRecord) -> None:
        entity = entity_of((one.entity_type, one.entity_name) for one in record.entity)
        if record.remove:
            self.quotas.remove(entity, record.key)
        else:
            self.quotas.set(entity, record.key, record.value)

    @_apply.register
    def _(self, record: AccessRecord) -> None:
        self.access.apply(record)

    @_apply.register
    def _(self, record: ConfigRecord) -> None:
        all_overrides = self._overrides_of(record)
        if all_overrides is None:
            return  # a newer version knows what this is
        overrides = all_overrides.setdefault(record.resource_name, {})
        if record.value is None:
            overrides.pop(record.name, None)
        else:
            overrides[record.name] = record.value
        if not overrides:
            del all_overrides[record.resource_name]
        if record.resource_type == ResourceType.TOPIC:
            self._topic_configs.pop(record.resource_name, None)
        elif record.resource_type == ResourceType.BROKER:
            self._broker_configs_changed()

    def _overrides_of(self, record: ConfigRecord) -> dict[str, dict[str, str]] | None:
        """Where a setting is kept; None for one that this version does not know."""
        match record.resource_type:
            case ResourceType.TOPIC:
                return self._topic_overrides if record.name in TOPIC_SETTINGS else None
            case ResourceType.BROKER:
                is_known = record.name in NODE_SETTINGS or record.name in WITHOUT_EFFECT
                return self._broker_overrides if is_known else None
            case ResourceType.GROUP:
                return self._group_overrides if record.name in GROUP_SETTINGS else None
        return None

    def _broker_configs_changed(self) -> None:
        own = self.broker_overrides(str(self._started_with.node_id))
        self._node_config = self._started_with.with_dynamic(self.broker_overrides(ALL_BROKERS), own)
        self._topic_configs.clear()
        self._default_topic_config = None
