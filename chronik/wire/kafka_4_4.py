"""Messages of Kafka 4.4 that kio does not have yet, in kio's form: written from the schemas in Kafka's client.

A version that is here differs from the one before it only where a class is written out below; all else is kio's.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, fields
from typing import ClassVar, get_type_hints

from kio.schema.api_versions.v4 import response as api_versions_v4
from kio.schema.delete_groups.v2 import request as delete_groups_v2
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.txn_offset_commit.v5 import request as txn_offset_commit_v5
from kio.schema.txn_offset_commit.v5 import response as txn_offset_commit_v5_response
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta

API_VERSIONS, TXN_OFFSET_COMMIT, DELETE_GROUPS = 18, 28, 42
NO_NODE = i32(-1)
NO_GENERATION = i32(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    """Version 5 says which node of which cluster the client believes to talk to (KIP-1242)."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(5)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(API_VERSIONS)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    client_software_name: str = field(metadata={"kafka_type": "string"})
    client_software_version: str = field(metadata={"kafka_type": "string"})
    cluster_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    node_id: i32 = field(metadata={"kafka_type": "int32"}, default=NO_NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse(api_versions_v4.ApiVersionsResponse):
    """The same as version 4."""

    __version__: ClassVar[i16] = i16(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest(delete_groups_v2.DeleteGroupsRequest):
    """The same as version 2."""

    __version__: ClassVar[i16] = i16(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    """Version 3 adds the message."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(DELETE_GROUPS)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    group_id: GroupId = field(metadata={"kafka_type": "string"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(3)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(DELETE_GROUPS)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    results: tuple[DeletableGroupResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition(txn_offset_commit_v5.TxnOffsetCommitRequestPartition):
    """The same as version 5."""

    __version__: ClassVar[i16] = i16(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """Version 6 names the topic by its id."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(TXN_OFFSET_COMMIT)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Kafka calls `generation_id` by now `generation_id_or_member_epoch`. Here it has one name in all versions."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(TXN_OFFSET_COMMIT)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    group_id: GroupId = field(metadata={"kafka_type": "string"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    generation_id: i32 = field(metadata={"kafka_type": "int32"}, default=NO_GENERATION)
    member_id: str = field(metadata={"kafka_type": "string"}, default="")
    group_instance_id: str | None = field(metadata={"kafka_type": "string"}, default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition(txn_offset_commit_v5_response.TxnOffsetCommitResponsePartition):
    """The same as version 5."""

    __version__: ClassVar[i16] = i16(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """By its id, as it was asked."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(TXN_OFFSET_COMMIT)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid"})
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(6)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(TXN_OFFSET_COMMIT)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


REQUESTS: dict[tuple[int, int], type] = {
    (API_VERSIONS, 5): ApiVersionsRequest,
    (TXN_OFFSET_COMMIT, 6): TxnOffsetCommitRequest,
    (DELETE_GROUPS, 3): DeleteGroupsRequest,
}
RESPONSES: dict[tuple[int, int], type] = {
    (API_VERSIONS, 5): ApiVersionsResponse,
    (TXN_OFFSET_COMMIT, 6): TxnOffsetCommitResponse,
    (DELETE_GROUPS, 3): DeleteGroupsResponse,
}
_NESTED: tuple[type, ...] = (
    DeletableGroupResult,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


for _type in (*REQUESTS.values(), *RESPONSES.values(), *_NESTED):
    _hints = get_type_hints(_type)
    for _field in fields(_type):
        _field.type = _hints[_field.name]  # kio's own reader and writer want the type itself, not its name
