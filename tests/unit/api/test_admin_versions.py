"""Every admin request in every version we answer: read from bytes, answered, written to bytes, read again.

The bytes are those of kio, so a field that a version does not have, or an answer of the wrong shape, shows here.
"""

from __future__ import annotations

import dataclasses
import io
import typing
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from chronik.api.table import module_of
from chronik.core.errors import Code
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.lift import convert
from chronik.wire.reader import default_of, shape_of
from chronik.wire.schemas import request_type, response_type
from chronik.wire.versions import APIS
from tests.unit.api.fake_context import ask, fake_context

NAMES = (
    "create_topics",
    "delete_topics",
    "create_partitions",
    "delete_records",
    "describe_configs",
    "alter_configs",
    "incremental_alter_configs",
    "describe_cluster",
    "describe_log_dirs",
    "describe_producers",
    "describe_topic_partitions",
    "metadata",
    "init_producer_id",
    "offset_for_leader_epoch",
    "list_offsets",
)
CASES = [
    (api, version) for api in APIS.values() if api.name in NAMES for version in range(api.supported, api.highest + 1)
]

# What to ask in each: plain values for the fields that matter, by name; what a version does not have is left out.
WANTED: dict[str, dict[str, Any]] = {
    "create_topics": {
        "topics": [
            {
                "name": "new",
                "num_partitions": 2,
                "replication_factor": 1,
                "configs": [{"name": "retention.ms", "value": "5"}],
            }
        ]
    },
    "delete_topics": {"topic_names": ["orders"], "topics": [{"name": "orders"}]},
    "create_partitions": {"topics": [{"name": "orders", "count": 5}]},
    "delete_records": {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 0}]}]},
    "describe_configs": {
        "resources": [{"resource_type": 2, "resource_name": "orders"}, {"resource_type": 4, "resource_name": "1"}],
        "include_synonyms": True,
        "include_documentation": True,
    },
    "alter_configs": {
        "resources": [
            {"resource_type": 2, "resource_name": "orders", "configs": [{"name": "retention.ms", "value": "5"}]}
        ]
    },
    "incremental_alter_configs": {
        "resources": [
            {
                "resource_type": 2,
                "resource_name": "orders",
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5"}],
            }
        ]
    },
    "describe_cluster": {"endpoint_type": 1},
    "describe_log_dirs": {"topics": None},
    "describe_producers": {"topics": [{"name": "orders", "partition_indexes": (0,)}]},
    "describe_topic_partitions": {"topics": [{"name": "orders"}], "response_partition_limit": 2},
    "metadata": {"topics": [{"name": "orders"}, {"name": "new"}], "include_cluster_authorized_operations": True},
    "init_producer_id": {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
    "offset_for_leader_epoch": {
        "topics": [{"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]
    },
    "list_offsets": {
        "replica_id": -1,
        "topics": [
            {"name": "orders", "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}
        ],
    },
}


def filled(message_type: type, values: dict[str, Any]) -> Any:
    """A message of this type with these values where it has such fields, zeros elsewhere."""
    hints = typing.get_type_hints(message_type)
    given: dict[str, Any] = {}
    for field in dataclasses.fields(message_type):
        if field.name not in values:
            given[field.name] = default_of(field, hints[field.name])
            continue
        value = values[field.name]
        _, is_array, nested, _ = shape_of(hints[field.name])
        if nested is not None and is_array and value is not None:
            value = tuple(filled(nested, one) for one in value)
        elif isinstance(value, list):
            value = tuple(value)
        given[field.name] = value
    return message_type(**given)


def written(message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def codes_in(message: Any) -> list[int]:
    """Every error code anywhere in a message."""
    found: list[int] = []
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name == "error_code":
            found.append(int(value))
        for item in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(item):
                found += codes_in(item)
    return found


def read_back(api: Any, version: int, response: Any) -> Any:
    frame = encode_response(api.key, version, 7, response)
    kind = response_type(api.key, version)
    body = 9 if api.is_flexible(version) else 8
    message, size = entity_reader(kind)(frame[body:], 0)
    assert size == len(frame) - body  # nothing is left over
    return message


@pytest.mark.parametrize(("api", "version"), CASES, ids=[f"{api.name}-v{version}" for api, version in CASES])
def test_a_request_in_any_version_is_answered_in_that_version(api: Any, version: int) -> None:
    module = module_of(api.key)
    body = written(filled(request_type(api.key, version), WANTED[api.name]))
    context = fake_context(topics={"orders": 3})

    request = decode_request(api.key, version, body, 0, module.REQUEST)
    response = read_back(api, version, ask(module, request, context, version))

    assert not any(codes_in(response)), response


@pytest.mark.parametrize(("api", "version"), CASES, ids=[f"{api.name}-v{version}" for api, version in CASES])
def test_a_refusal_in_any_version_is_never_a_success(api: Any, version: int) -> None:
    # F33: a fault answered as success.
    module = module_of(api.key)
    request = convert(filled(request_type(api.key, version), WANTED[api.name]), module.REQUEST)

    response = read_back(api, version, module.refuse(request, Code.UNKNOWN_SERVER_ERROR, "a fault"))

    codes = codes_in(response)
    assert codes
    assert set(codes) == {-1}
