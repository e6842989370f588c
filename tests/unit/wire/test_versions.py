"""The table of versions: what kio knows, what Kafka 4.x has, and where the flexible encodings begin."""

from __future__ import annotations

import pytest
from kio.schema.index import api_key_map

from chronik.wire.versions import API_VERSIONS, APIS, EVERY_API, FETCH, INSPECT, PRIVATE_APIS, PRODUCE, ApiVersion
from tests.unit.wire.messages import SPOKEN, SPOKEN_NAMES, request_type, response_type

# Kafka 4.4's ranges, as in its message definitions.
RANGES = {
    "produce": (0, 13), "fetch": (4, 18), "list_offsets": (1, 11), "metadata": (0, 13), "offset_commit": (2, 10),
    "offset_fetch": (1, 10), "find_coordinator": (0, 6), "join_group": (0, 9), "heartbeat": (0, 4),
    "leave_group": (0, 5), "sync_group": (0, 5), "describe_groups": (0, 6), "list_groups": (0, 5),
    "api_versions": (0, 5), "create_topics": (2, 7), "delete_topics": (1, 6), "delete_records": (0, 2),
    "init_producer_id": (0, 5), "offset_for_leader_epoch": (2, 4), "describe_configs": (1, 4),
    "alter_configs": (0, 2), "describe_log_dirs": (1, 5), "create_partitions": (0, 3), "delete_groups": (0, 3),
    "incremental_alter_configs": (0, 1), "offset_delete": (0, 0), "describe_cluster": (0, 2),
    "describe_producers": (0, 0), "consumer_group_heartbeat": (0, 1), "consumer_group_describe": (0, 1),
    "describe_topic_partitions": (0, 0), "elect_leaders": (0, 2), "alter_partition_reassignments": (0, 1),
    "list_partition_reassignments": (0, 0), "broker_registration": (0, 4), "broker_heartbeat": (0, 2),
    "update_features": (0, 2), "unregister_broker": (0, 0), "allocate_producer_ids": (0, 0),
    "vote": (0, 2), "describe_quorum": (0, 2), "fetch_snapshot": (0, 1), "add_raft_voter": (0, 1),
    "remove_raft_voter": (0, 0), "describe_client_quotas": (0, 1), "alter_client_quotas": (0, 1),
    "describe_acls": (1, 3), "create_acls": (1, 3), "delete_acls": (1, 3),
    "describe_user_scram_credentials": (0, 0), "alter_user_scram_credentials": (0, 0), "list_config_resources": (0, 1),
    "add_partitions_to_txn": (0, 5), "add_offsets_to_txn": (0, 4), "end_txn": (0, 5), "write_txn_markers": (1, 2),
    "txn_offset_commit": (0, 5), "sasl_handshake": (0, 1), "sasl_authenticate": (0, 2),
    "describe_transactions": (0, 0), "list_transactions": (0, 2),
    "begin_quorum_epoch": (1, 1), "end_quorum_epoch": (1, 1),  # Kafka's are 0-1: only nodes ask these
    "alter_partition": (3, 3),  # Kafka's is 2-3: only nodes ask this, and ours know 3
}  # fmt: skip


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_range_advertised_is_kafkas(api: ApiVersion) -> None:
    assert (api.lowest, api.highest) == RANGES[api.name]


def test_nothing_is_missing_from_the_table() -> None:
    assert {api.name for api in APIS.values()} == set(RANGES)


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
