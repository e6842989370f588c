"""Every request we know by number: its name in kio, the versions we answer, and where its flexible encoding begins.

The ranges are Kafka 4.4's. Produce is *advertised* from 0 though 0-2 are refused: older librdkafka switches
compression off when it does not see version 0.
"""

from __future__ import annotations

from typing import NamedTuple


class ApiVersion(NamedTuple):
    """One request: what is advertised (`lowest`..`highest`) and what is answered (`supported`..`highest`)."""

    key: int
    name: str
    lowest: int
    highest: int
    flexible_from: int
    supported: int

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


def _api(
    key: int, name: str, lowest: int, highest: int, flexible_from: int, supported: int | None = None
) -> ApiVersion:
    return ApiVersion(key, name, lowest, highest, flexible_from, lowest if supported is None else supported)


PRODUCE = 0
FETCH = 1
SASL_HANDSHAKE = 17
API_VERSIONS = 18
SASL_AUTHENTICATE = 36

_ALL = (
    _api(PRODUCE, "produce", 0, 13, 9, supported=3),
    _api(FETCH, "fetch", 4, 18, 12),
    _api(2, "list_offsets", 1, 11, 6),
    _api(3, "metadata", 0, 13, 9),
    _api(8, "offset_commit", 2, 10, 8),
    _api(9, "offset_fetch", 1, 10, 6),
    _api(10, "find_coordinator", 0, 6, 3),
    _api(11, "join_group", 0, 9, 6),
    _api(12, "heartbeat", 0, 4, 4),
    _api(13, "leave_group", 0, 5, 4),
    _api(14, "sync_group", 0, 5, 4),
    _api(15, "describe_groups", 0, 6, 5),
    _api(16, "list_groups", 0, 5, 3),
    _api(SASL_HANDSHAKE, "sasl_handshake", 0, 1, 99),
    _api(API_VERSIONS, "api_versions", 0, 5, 3),
    _api(19, "create_topics", 2, 7, 5),
    _api(20, "delete_topics", 1, 6, 4),
    _api(21, "delete_records", 0, 2, 2),
    _api(22, "init_producer_id", 0, 5, 2),
    _api(23, "offset_for_leader_epoch", 2, 4, 4),
    _api(24, "add_partitions_to_txn", 0, 5, 3),
    _api(25, "add_offsets_to_txn", 0, 4, 3),
    _api(26, "end_txn", 0, 5, 3),
    _api(27, "write_txn_markers", 1, 2, 1),
    _api(28, "txn_offset_commit", 0, 6, 3),
    _api(29, "describe_acls", 1, 3, 2),
    _api(30, "create_acls", 1, 3, 2),
    _api(31, "delete_acls", 1, 3, 2),
    _api(32, "describe_configs", 1, 4, 4),
    _api(33, "alter_configs", 0, 2, 2),
    _api(35, "describe_log_dirs", 1, 5, 2),
    _api(SASL_AUTHENTICATE, "sasl_authenticate", 0, 2, 2),
    _api(37, "create_partitions", 0, 3, 2),
    _api(38, "create_delegation_token", 1, 3, 2),
    _api(39, "renew_delegation_token", 1, 2, 2),
    _api(40, "expire_delegation_token", 1, 2, 2),
    _api(41, "describe_delegation_token", 1, 3, 2),
    _api(42, "delete_groups", 0, 3, 2),
    _api(43, "elect_leaders", 0, 2, 2),
    _api(44, "incremental_alter_configs", 0, 1, 1),
    _api(45, "alter_partition_reassignments", 0, 1, 0),
    _api(46, "list_partition_reassignments", 0, 0, 0),
    _api(47, "offset_delete", 0, 0, 99),
    _api(48, "describe_client_quotas", 0, 1, 1),
    _api(49, "alter_client_quotas", 0, 1, 1),
    _api(50, "describe_user_scram_credentials", 0, 0, 0),
    _api(51, "alter_user_scram_credentials", 0, 0, 0),
    _api(52, "vote", 0, 2, 0),
    _api(53, "begin_quorum_epoch", 1, 1, 1),
    _api(54, "end_quorum_epoch", 1, 1, 1),
    _api(55, "describe_quorum", 0, 2, 0),
    _api(56, "alter_partition", 3, 3, 0),
    _api(57, "update_features", 0, 2, 0),
    _api(59, "fetch_snapshot", 0, 1, 0),
    _api(60, "describe_cluster", 0, 2, 0),
    _api(61, "describe_producers", 0, 0, 0),
    _api(62, "broker_registration", 0, 4, 0),
    _api(63, "broker_heartbeat", 0, 2, 0),
    _api(64, "unregister_broker", 0, 0, 0),
    _api(65, "describe_transactions", 0, 0, 0),
    _api(66, "list_transactions", 0, 2, 0),
    _api(67, "allocate_producer_ids", 0, 0, 0),
    _api(68, "consumer_group_heartbeat", 0, 1, 0),
    _api(69, "consumer_group_describe", 0, 1, 0),
    _api(74, "list_config_resources", 0, 1, 0),
    _api(75, "describe_topic_partitions", 0, 0, 0),
    _api(80, "add_raft_voter", 0, 1, 0),
    _api(81, "remove_raft_voter", 0, 0, 0),
)

APIS: dict[int, ApiVersion] = {api.key: api for api in _ALL}

# Not Kafka's and never listed for clients: nodes and our own programs ask each other (decision 0017). Kafka counts its
# requests up from 0, so this one is far away.
INSPECT = 31_000
PRIVATE_APIS: dict[int, ApiVersion] = {INSPECT: _api(INSPECT, "inspect", 0, 0, 99)}
EVERY_API: dict[int, ApiVersion] = {**APIS, **PRIVATE_APIS}
NODE_SOFTWARE = "chronik"  # what a node calls itself: its requests are answered where they arrive, never sent on
_NODE_NAME = "node-"


def node_name(node_id: int) -> str:
    """The client id with which a node asks others."""
    return f"{_NODE_NAME}{node_id}"


def node_name_for(node_id: int, principal: str, host: str) -> str:
    """The client id with which a node begins a connection by which it asks others for a client."""
    return "\n".join((node_name(node_id), host, principal))


def client_behind(client_id: str) -> tuple[str, str] | None:
    """The principal and host of the client for which a node with this client id asks; None: for itself."""
    parts = client_id.split("\n", 2)
    return (parts[2], parts[1]) if len(parts) == 3 else None


def node_id_of(client_id: str) -> int:
    """Which node has this client id; -1: none."""
    client_id = client_id.partition("\n")[0]
    digits = client_id.removeprefix(_NODE_NAME)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 10
    return int(digits) if is_number and client_id.startswith(_NODE_NAME) else -1
