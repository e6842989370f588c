"""Messages of Kafka 4.4 that kio does not have yet, in kio's form: written from the schemas in Kafka's client.

A version that is here differs from the one before it only where a class is written out below; all else is kio's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar, get_type_hints

from kio.schema.api_versions.v4 import response as api_versions_v4
from kio.schema.delete_groups.v2 import request as delete_groups_v2
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import GroupId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta

API_VERSIONS, DELETE_GROUPS = 18, 42
NO_NODE = i32(-1)


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


REQUESTS: dict[tuple[int, int], type] = {(API_VERSIONS, 5): ApiVersionsRequest, (DELETE_GROUPS, 3): DeleteGroupsRequest}
RESPONSES: dict[tuple[int, int], type] = {
    (API_VERSIONS, 5): ApiVersionsResponse,
    (DELETE_GROUPS, 3): DeleteGroupsResponse,
}


for _type in (*REQUESTS.values(), *RESPONSES.values(), DeletableGroupResult):
    _hints = get_type_hints(_type)
    for _field in fields(_type):
        _field.type = _hints[_field.name]  # kio's own reader and writer want the type itself, not its name
