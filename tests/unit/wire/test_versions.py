"""The table of versions: what kio knows, what Kafka 4.x has, and where the flexible encodings begin."""

from __future__ import annotations

import pytest
from kio.schema.index import api_key_map

from chronik.wire.versions import API_VERSIONS, APIS, EVERY_API, FETCH, INSPECT, PRIVATE_APIS, PRODUCE, ApiVersion
from tests.unit.wire.kafka_4_4_versions import KAFKA_4_4
from tests.unit.wire.messages import SPOKEN, SPOKEN_NAMES, request_type, response_type

# Where our range is another than Kafka 4.4's, on purpose.
OURS = {
    "produce": (0, 13),  # older librdkafka switches compression off when it does not see version 0
    "begin_quorum_epoch": (1, 1),  # only nodes ask these
    "end_quorum_epoch": (1, 1),
    "alter_partition": (3, 3),
}
# What Kafka 4.4 has and we have not: docs/gaps.md says what happens instead.
MISSING = {
    "alter_replica_log_dirs", "assign_replicas_to_dirs",  # log directories
    "get_telemetry_subscriptions", "push_telemetry",
    "share_group_heartbeat", "share_group_describe", "share_fetch", "share_acknowledge",
    "initialize_share_group_state", "read_share_group_state", "write_share_group_state", "delete_share_group_state",
    "read_share_group_state_summary", "describe_share_group_offsets", "alter_share_group_offsets",
    "delete_share_group_offsets",
    "streams_group_heartbeat", "streams_group_describe", "streams_group_topology_description_update",
    "envelope",  # a node sends on what it was asked as itself, with the principal
    "controller_registration", "update_raft_voter", "unregister_controller",  # voters with directory ids
}  # fmt: skip


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_range_advertised_is_kafkas(api: ApiVersion) -> None:
    name, lowest, highest = KAFKA_4_4[api.key]

    assert api.name == name
    assert (api.lowest, api.highest) == OURS.get(name, (lowest, highest))


def test_what_kafka_has_is_in_the_table_or_missing_on_purpose() -> None:
    assert {name for name, _, _ in KAFKA_4_4.values()} - {api.name for api in APIS.values()} == MISSING


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_number_is_the_one_kio_has_for_the_name(api: ApiVersion) -> None:
    assert api_key_map[api.key] == api.name
    assert APIS[api.key] is api


@pytest.mark.parametrize(("api_key", "version"), SPOKEN, ids=SPOKEN_NAMES)
def test_kio_has_every_version_and_agrees_which_are_flexible(api_key: int, version: int) -> None:
    api = APIS[api_key]
    request, response = request_type(api_key, version), response_type(api_key, version)

    assert request.__api_key__ == response.__api_key__ == api_key
    assert api.is_flexible(version) == request.__flexible__ == response.__flexible__


def test_produce_is_advertised_from_0_and_answered_from_3() -> None:
    """Older librdkafka switches compression off when it does not see version 0."""
    produce = APIS[PRODUCE]

    assert (produce.lowest, produce.supported) == (0, 3)
    assert all(api.lowest == api.supported for api in APIS.values() if api.key != PRODUCE)


def test_the_named_numbers_are_kafkas() -> None:
    assert (PRODUCE, FETCH, API_VERSIONS) == (0, 1, 18)


def test_a_request_of_our_own_is_far_from_kafkas_and_not_among_them() -> None:
    assert INSPECT not in APIS
    assert max(api_key_map) + 10_000 < INSPECT <= 2**15 - 1
    assert {**APIS, INSPECT: PRIVATE_APIS[INSPECT]} == EVERY_API
