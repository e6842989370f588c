"""The records of the metadata log, in Kafka's own bytes: its `kafka-dump-log --cluster-metadata-decoder` reads them.

Each record has the schema of the Kafka message of the same name. A value in the log is a frame version, the
record's key and version, and the record, the first three as varints. Records are written in the versions of
metadata.version 7 (Kafka 3.3, the oldest that Kafka 4 reads); only a change of eligible leader replicas (KIP-966)
needs a newer one, that of Kafka 3.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from chronik.core.access.acls import Acl, AclPatternType, AclPermission
from chronik.core.access.delegation_tokens import DelegationToken
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Corrupt
from chronik.core.quotas.entities import QuotaEntity
from chronik.core.records.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UINT16,
    UUID,
    Schema,
    array_of,
    field_of,
    read_uvarint,
    write_uvarint,
)
from chronik.core.types import Buffer

FRAME_VERSION = 1
# Features, and the levels of metadata.version that can be finalized: from Kafka 3.3-IV3 to 4.3-IV0.
ELIGIBLE_LEADERS, GROUP_VERSION = "eligible.leader.replicas.version", "group.version"
KRAFT_VERSION, METADATA_VERSION = "kraft.version", "metadata.version"
TRANSACTION_VERSION = "transaction.version"
METADATA_VERSION_MIN, METADATA_VERSION_MAX = 7, 30
NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1
UNCLEAN, RECOVERED = 1, 0  # how a leader came to lead: from outside the in-sync set, or in order (again)
UNFENCE, FENCE = -1, 1  # 0: no change
PRINCIPAL_TAG = 101  # ours too: as what a node registered
LOST_REPLICAS_TAG = 100  # ours: Kafka does not know of logs that are lost, and passes a tag it does not know over
# What they are called that have no other name: a listener for clients, and the last of all, which is for other nodes.
CLIENTS_END_POINT, NODES_END_POINT = "PLAINTEXT", "INTERNAL"


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    name: str = field_of(STRING)
    host: str = field_of(STRING)
    port: int = field_of(UINT16)
    security_protocol: int = field_of(INT16)


@dataclass(frozen=True, slots=True)
class BrokerFeature:
    name: str = field_of(STRING)
    min_supported_version: int = field_of(INT16)
    max_supported_version: int = field_of(INT16)


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    durable: ClassVar[bool] = True
    broker_id: int = field_of(INT32)
    incarnation_id: bytes = field_of(UUID)
    broker_epoch: int = field_of(INT64)
    end_points: tuple[BrokerEndpoint, ...] = field_of(array_of(Schema(BrokerEndpoint, flexible=True)))
    features: tuple[BrokerFeature, ...] = field_of(array_of(Schema(BrokerFeature, flexible=True)))
    rack: str | None = field_of(NULLABLE_STRING)
    fenced: bool = field_of(BOOL)
    in_controlled_shutdown: bool = field_of(BOOL)
    principal: str = field_of(STRING, tag=PRINCIPAL_TAG, default="")


def end_points(record: RegisterBrokerRecord) -> tuple[tuple[BrokerEndpoint, ...], BrokerEndpoint]:
    """Where clients reach a broker, by listener, and where other nodes do: at the last one. One that names no address
    for nodes has one for all."""
    return record.end_points[:-1] or record.end_points, record.end_points[-1]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    durable: ClassVar[bool] = True
    name: str = field_of(STRING)
    topic_id: bytes = field_of(UUID)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    durable: ClassVar[bool] = True
    partition_id: int = field_of(INT32)
    topic_id: bytes = field_of(UUID)
    replicas: tuple[int, ...] = field_of(array_of(INT32))
    isr: tuple[int, ...] = field_of(array_of(INT32))
    removing_replicas: tuple[int, ...] = field_of(array_of(INT32))
    adding_replicas: tuple[int, ...] = field_of(array_of(INT32))
    leader: int = field_of(INT32)
    leader_epoch: int = field_of(INT32)
    partition_epoch: int = field_of(INT32)
    leader_recovery_state: int = field_of(INT8, tag=0, default=0)
    # Only in snapshots: a new partition has neither.
    eligible_leader_replicas: tuple[int, ...] = field_of(array_of(INT32), tag=1, default=())
    lost_replicas: tuple[int, ...] = field_of(array_of(INT32), tag=LOST_REPLICAS_TAG, default=())


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A null value takes the setting back."""

    durable: ClassVar[bool] = True
    resource_type: int = field_of(INT8)
    resource_name: str = field_of(STRING)
    name: str = field_of(STRING)
    value: str | None = field_of(NULLABLE_STRING)


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """What is null (for the leader: -2) stays as it is. A leader given, even the same one, begins a leader epoch."""

    durable: ClassVar[bool] = True
    partition_id: int = field_of(INT32)
    topic_id: bytes = field_of(UUID)
    isr: tuple[int, ...] | None = field_of(array_of(INT32, nullable=True), tag=0, default=None)
    leader: int = field_of(INT32, tag=1, default=LEADER_UNCHANGED)
    replicas: tuple[int, ...] | None = field_of(array_of(INT32, nullable=True), tag=2, default=None)
    removing_replicas: tuple[int, ...] | None = field_of(array_of(INT32, nullable=True), tag=3, default=None)
    adding_replicas: tuple[int, ...] | None = field_of(array_of(INT32, nullable=True), tag=4, default=None)
    leader_recovery_state: int = field_of(INT8, tag=5, default=RECOVERY_UNCHANGED)
    eligible_leader_replicas: tuple[int, ...] | None = field_of(array_of(INT32, nullable=True), tag=6, default=None)
    lost_replicas: tuple[int, ...] | None = field_of(
        array_of(INT32, nullable=True), tag=LOST_REPLICAS_TAG, default=None
    )


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    durable: ClassVar[bool] = True
    broker_id: int = field_of(INT32)
    broker_epoch: int = field_of(INT64)


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord:
    """What is 0 stays as it is. Shutting down ends with the next registration."""

    durable: ClassVar[bool] = True
    broker_id: int = field_of(INT32)
    broker_epoch: int = field_of(INT64)
    fenced: int = field_of(INT8, tag=0, default=0)
    in_controlled_shutdown: int = field_of(INT8, tag=1, default=0)


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    durable: ClassVar[bool] = True
    topic_id: bytes = field_of(UUID)


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    durable: ClassVar[bool] = True
    name: str = field_of(STRING)
    feature_level: int = field_of(INT16)


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Ids below `next_producer_id` have been handed out in blocks."""

    durable: ClassVar[bool] = True
    broker_id: int = field_of(INT32)
    broker_epoch: int = field_of(INT64)
    next_producer_id: int = field_of(INT64)


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    durable: ClassVar[bool] = True
    id: bytes = field_of(UUID)
    resource_type: int = field_of(INT8)
    resource_name: str = field_of(STRING)
    pattern_type: int = field_of(INT8)
    principal: str = field_of(STRING)
    host: str = field_of(STRING)
    operation: int = field_of(INT8)
    permission_type: int = field_of(INT8)


def acl_of(record: AccessControlEntryRecord) -> Acl | None:
    """None for a rule about what only a newer version knows: nothing here asks about that."""
    try:
        return Acl(
            AclResourceType(record.resource_type),
            record.resource_name,
            AclPatternType(record.pattern_type),
            record.principal,
            record.host,
            AclOperation(record.operation),
            AclPermission(record.permission_type),
        )
    except ValueError:
        return None


def entry_of(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        acl_id,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    durable: ClassVar[bool] = True
    id: bytes = field_of(UUID)


@dataclass(frozen=True, slots=True, repr=False)  # what is in a text may be in a log file
class UserScramCredentialRecord:
    durable: ClassVar[bool] = True
    name: str = field_of(STRING)
    mechanism: int = field_of(INT8)
    salt: bytes = field_of(BYTES)
    stored_key: bytes = field_of(BYTES)
    server_key: bytes = field_of(BYTES)
    iterations: int = field_of(INT32)


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord:
    durable: ClassVar[bool] = True
    name: str = field_of(STRING)
    mechanism: int = field_of(INT8)


@dataclass(frozen=True, slots=True)
class DelegationTokenRecord:
    """Its secret is not in it, but made of its id and the key of the nodes."""

    durable: ClassVar[bool] = True
    owner: str = field_of(STRING)
    requester: str = field_of(STRING)
    renewers: tuple[str, ...] = field_of(array_of(STRING))
    issue_timestamp: int = field_of(INT64)
    max_timestamp: int = field_of(INT64)
    expiration_timestamp: int = field_of(INT64)
    token_id: str = field_of(STRING)


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        str(token.owner),
        str(token.requester),
        tuple(map(str, token.renewers)),
        token.issued_ms,
        token.max_ms,
        token.expires_ms,
        token.token_id,
    )


@dataclass(frozen=True, slots=True)
class RemoveDelegationTokenRecord:
    durable: ClassVar[bool] = True
    token_id: str = field_of(STRING)


@dataclass(frozen=True, slots=True)
class QuotaEntityData:
    """One part of what a quota is about; without a name, the default."""

    entity_type: str = field_of(STRING)
    entity_name: str | None = field_of(NULLABLE_STRING)


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    durable: ClassVar[bool] = True
    entity: tuple[QuotaEntityData, ...] = field_of(array_of(Schema(QuotaEntityData, flexible=True)))
    key: str = field_of(STRING)
    value: float = field_of(FLOAT64)
    remove: bool = field_of(BOOL)


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """That a quota is so much from now on, or (None) that there is none."""
    parts = tuple(QuotaEntityData(kind, name) for kind, name in entity)
    return ClientQuotaRecord(parts, key, value or 0.0, value is None)


AccessRecord: TypeAlias = (
    AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
)
MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | ClientQuotaRecord
    | AccessRecord
)

# Key and version of each record, as Kafka numbers them.
_WRITTEN: dict[type[MetadataRecord], tuple[int, int]] = {
    RegisterBrokerRecord: (0, 1),
    UnregisterBrokerRecord: (1, 0),
    TopicRecord: (2, 0),
    PartitionRecord: (3, 0),
    ConfigRecord: (4, 0),
    PartitionChangeRecord: (5, 0),
    RemoveTopicRecord: (9, 0),
    DelegationTokenRecord: (10, 0),
    UserScramCredentialRecord: (11, 0),
    FeatureLevelRecord: (12, 0),
    ClientQuotaRecord: (14, 0),
    ProducerIdsRecord: (15, 0),
    BrokerRegistrationChangeRecord: (17, 1),
    AccessControlEntryRecord: (18, 0),
    RemoveAccessControlEntryRecord: (19, 0),
    RemoveUserScramCredentialRecord: (22, 0),
    RemoveDelegationTokenRecord: (26, 0),
}
# Versions that differ from the written one in nothing but tags, which are read when they are there.
_ALSO_READ: dict[type[MetadataRecord], tuple[int, ...]] = {
    PartitionChangeRecord: (1, 2),
    BrokerRegistrationChangeRecord: (0, 2),
}
_WITH_ELIGIBLE_LEADERS = 2
# Any: each schema is of its own record, which a dict from types to schemas cannot say.
_SCHEMAS: dict[type[MetadataRecord], Schema[Any]] = {record: Schema(record, flexible=True) for record in _WRITTEN}
_BY_KEY = {key: record for record, (key, _) in _WRITTEN.items()}


def encode(record: MetadataRecord) -> bytes:
    """A record as it stands in the log."""
    key, version = _WRITTEN[type(record)]
    if isinstance(record, PartitionChangeRecord) and record.eligible_leader_replicas is not None:
        version = _WITH_ELIGIBLE_LEADERS
    out = bytearray()
    for number in (FRAME_VERSION, key, version):
        write_uvarint(out, number)
    _SCHEMAS[type(record)].write(out, record)
    return bytes(out)


def decode(value: Buffer) -> MetadataRecord | None:
    """The record in a value of the log; None for a kind of record we do not know. Raises Corrupt."""
    position = 0
    numbers: list[int] = []
    try:
        for _ in range(3):
            number, position = read_uvarint(value, position)
            numbers.append(number)
    except (IndexError, ValueError) as problem:
        raise Corrupt("metadata record", f"no frame: {problem}") from problem
    frame_version, key, version = numbers
    if frame_version != FRAME_VERSION:
        raise Corrupt("metadata record", f"unknown frame version {frame_version}")
    record = _BY_KEY.get(key)
    if record is None:
        return None
    if version != _WRITTEN[record][1] and version not in _ALSO_READ.get(record, ()):
        raise Corrupt("metadata record", f"{record.__name__} of version {version}, which we do not write")
    found: MetadataRecord = _SCHEMAS[record].decode(value, position)
    return found
