"""All we speak, on one page: for each request the node it belongs to, what a client must be allowed to, and whether the
next request of its connection may overtake it.

A request's module has its name: `handle(request, caller, context)` gives its response, `refuse(request, code, message)`
gives a refusal the shape of one. `DIRECT` modules, those of the two hot requests, take the call themselves
(`start(call, context)`); what they return, if anything, is called when the client is gone before its response is there.
Versions are in `wire.versions`.
"""

from __future__ import annotations

import importlib
from enum import Enum
from functools import cache
from types import ModuleType
from typing import NamedTuple

from chronik.core.access.operations import Access, AclOperation, AclResourceType
from chronik.wire.versions import API_VERSIONS, APIS, EVERY_API, FETCH, INSPECT, PRODUCE

DIRECT = frozenset({PRODUCE, FETCH})


class Destination(Enum):
    """Where a request is to be answered."""

    ANYWHERE = "the node it was sent to"
    LEADER = "the leader of each partition it names"
    COORDINATOR = "the coordinator of each group it names"
    TRANSACTION_COORDINATOR = "the coordinator of each transactional id it names"
    NAMED = "the node it asks about, if it asks about one"
    ALL = "every node: all of them together have the answer"
    CONTROLLER = "the controller"


class ApiRow(NamedTuple):
    """One request. `needs`: each operation and kind of resource that Kafka's broker asks its authorizer about for it,
    the usual one first; which resources, and whether one of them is enough, depends on what the request says."""

    place: Destination
    needs: tuple[Access, ...]
    overlaps: bool = False  # the next request of the connection may start before this one is answered


def _on(resource_type: AclResourceType, *operations: AclOperation) -> tuple[Access, ...]:
    return tuple(Access(operation, resource_type) for operation in operations)


_OPERATION = AclOperation
_READ_TOPIC, _WRITE_TOPIC, _CREATE_TOPIC, _DELETE_TOPIC, _ALTER_TOPIC, _DESCRIBE_TOPIC = _on(
    AclResourceType.TOPIC,
    *(_OPERATION.READ, _OPERATION.WRITE, _OPERATION.CREATE, _OPERATION.DELETE, _OPERATION.ALTER, _OPERATION.DESCRIBE),
)
_TOPIC_CONFIGS, _ALTER_TOPIC_CONFIGS = _on(AclResourceType.TOPIC, _OPERATION.DESCRIBE_CONFIGS, _OPERATION.ALTER_CONFIGS)
_READ_GROUP, _DELETE_GROUP, _DESCRIBE_GROUP, _GROUP_CONFIGS, _ALTER_GROUP_CONFIGS = _on(
    AclResourceType.GROUP,
    *(_OPERATION.READ, _OPERATION.DELETE, _OPERATION.DESCRIBE, _OPERATION.DESCRIBE_CONFIGS, _OPERATION.ALTER_CONFIGS),
)
_CREATE_CLUSTER, _ALTER_CLUSTER, _DESCRIBE_CLUSTER, _CLUSTER_ACTION, _IDEMPOTENT_WRITE = _on(
    AclResourceType.CLUSTER,
    *(_OPERATION.CREATE, _OPERATION.ALTER, _OPERATION.DESCRIBE, _OPERATION.CLUSTER_ACTION, _OPERATION.IDEMPOTENT_WRITE),
)
_CLUSTER_CONFIGS, _ALTER_CLUSTER_CONFIGS = _on(
    AclResourceType.CLUSTER, _OPERATION.DESCRIBE_CONFIGS, _OPERATION.ALTER_CONFIGS
)
_WRITE_TRANSACTIONAL_ID, _DESCRIBE_TRANSACTIONAL_ID = _on(
    AclResourceType.TRANSACTIONAL_ID, _OPERATION.WRITE, _OPERATION.DESCRIBE
)
(_DESCRIBE_TOKEN,) = _on(AclResourceType.DELEGATION_TOKEN, _OPERATION.DESCRIBE)
_CREATE_TOKENS, _DESCRIBE_TOKENS = _on(AclResourceType.USER, _OPERATION.CREATE_TOKENS, _OPERATION.DESCRIBE_TOKENS)

_ANYWHERE, _LEADER, _COORDINATOR = Destination.ANYWHERE, Destination.LEADER, Destination.COORDINATOR
_TRANSACTIONS, _CONTROLLER = Destination.TRANSACTION_COORDINATOR, Destination.CONTROLLER

# Produce is sent on wherever it was meant to go, and so is what belongs to the controller. The other places count
# only where clients cannot find them by themselves: all nodes have one address (node/routing/one_address.py).
# Only requests that wait for others overlap: a client that sends 'create topic' and 'metadata' at once sees its topic.
_ROWS = {
    "api_versions": ApiRow(_ANYWHERE, ()),  # before a client is authenticated, too
    "sasl_handshake": ApiRow(_ANYWHERE, ()),
    "sasl_authenticate": ApiRow(_ANYWHERE, ()),
    "metadata": ApiRow(_ANYWHERE, (_DESCRIBE_TOPIC, _CREATE_CLUSTER, _CREATE_TOPIC)),
    "find_coordinator": ApiRow(_ANYWHERE, (_DESCRIBE_GROUP, _DESCRIBE_TRANSACTIONAL_ID)),
    "init_producer_id": ApiRow(_TRANSACTIONS, (_IDEMPOTENT_WRITE, _WRITE_TOPIC, _WRITE_TRANSACTIONAL_ID)),
    "describe_cluster": ApiRow(_ANYWHERE, ()),  # any client may ask where the nodes are, as in Kafka
    "describe_log_dirs": ApiRow(_ANYWHERE, (_DESCRIBE_CLUSTER,)),
    "describe_topic_partitions": ApiRow(_ANYWHERE, (_DESCRIBE_TOPIC,)),
    "describe_acls": ApiRow(_ANYWHERE, (_DESCRIBE_CLUSTER,)),
    "describe_user_scram_credentials": ApiRow(_ANYWHERE, (_DESCRIBE_CLUSTER,)),
    "describe_client_quotas": ApiRow(_ANYWHERE, (_CLUSTER_CONFIGS,)),
    "list_config_resources": ApiRow(_ANYWHERE, (_CLUSTER_CONFIGS,)),
    "describe_delegation_token": ApiRow(_ANYWHERE, (_DESCRIBE_TOKEN, _DESCRIBE_TOKENS)),
    "inspect": ApiRow(_ANYWHERE, (_DESCRIBE_CLUSTER,)),  # ours, not Kafka's
    # Between nodes: each means the one it is sent to.
    "vote": ApiRow(_ANYWHERE, (_CLUSTER_ACTION,)),
    "begin_quorum_epoch": ApiRow(_ANYWHERE, (_CLUSTER_ACTION,)),
    "end_quorum_epoch": ApiRow(_ANYWHERE, (_CLUSTER_ACTION,)),
    "fetch_snapshot": ApiRow(_ANYWHERE, (_CLUSTER_ACTION,)),
    # Partitions.
    "produce": ApiRow(_LEADER, (_WRITE_TOPIC, _WRITE_TRANSACTIONAL_ID), overlaps=True),
    "fetch": ApiRow(_LEADER, (_READ_TOPIC, _CLUSTER_ACTION), overlaps=True),  # the latter for followers
    "list_offsets": ApiRow(_LEADER, (_DESCRIBE_TOPIC,)),
    "offset_for_leader_epoch": ApiRow(_LEADER, (_DESCRIBE_TOPIC, _CLUSTER_ACTION)),
    "delete_records": ApiRow(_LEADER, (_DELETE_TOPIC,)),
    "describe_producers": ApiRow(_LEADER, (_READ_TOPIC,)),
    # Groups.
    "join_group": ApiRow(_COORDINATOR, (_READ_GROUP,), overlaps=True),
    "sync_group": ApiRow(_COORDINATOR, (_READ_GROUP,), overlaps=True),
    "heartbeat": ApiRow(_COORDINATOR, (_READ_GROUP,), overlaps=True),
    "leave_group": ApiRow(_COORDINATOR, (_READ_GROUP,)),
    "offset_commit": ApiRow(_COORDINATOR, (_READ_GROUP, _READ_TOPIC), overlaps=True),
    "offset_fetch": ApiRow(_COORDINATOR, (_DESCRIBE_GROUP, _DESCRIBE_TOPIC), overlaps=True),
    "offset_delete": ApiRow(_COORDINATOR, (_DELETE_GROUP, _READ_TOPIC)),
    "describe_groups": ApiRow(_COORDINATOR, (_DESCRIBE_GROUP,)),
    "delete_groups": ApiRow(_COORDINATOR, (_DELETE_GROUP,)),
    "consumer_group_heartbeat": ApiRow(_COORDINATOR, (_READ_GROUP, _DESCRIBE_TOPIC), overlaps=True),
    "consumer_group_describe": ApiRow(_COORDINATOR, (_DESCRIBE_GROUP, _DESCRIBE_TOPIC)),
    # Transactions.
    "add_partitions_to_txn": ApiRow(_TRANSACTIONS, (_WRITE_TRANSACTIONAL_ID, _WRITE_TOPIC, _CLUSTER_ACTION)),
    "add_offsets_to_txn": ApiRow(_TRANSACTIONS, (_WRITE_TRANSACTIONAL_ID, _READ_GROUP)),
    "txn_offset_commit": ApiRow(_COORDINATOR, (_WRITE_TRANSACTIONAL_ID, _READ_GROUP, _READ_TOPIC)),
    # From coordinators, and from administrators that end a transaction which hangs: to the leader of each partition.
    "write_txn_markers": ApiRow(_ANYWHERE, (_CLUSTER_ACTION, _ALTER_CLUSTER)),
    "end_txn": ApiRow(_TRANSACTIONS, (_WRITE_TRANSACTIONAL_ID,)),
    "describe_transactions": ApiRow(_TRANSACTIONS, (_DESCRIBE_TRANSACTIONAL_ID, _DESCRIBE_TOPIC)),
    "list_transactions": ApiRow(Destination.ALL, (_DESCRIBE_TRANSACTIONAL_ID,)),
    "list_groups": ApiRow(Destination.ALL, (_DESCRIBE_CLUSTER, _DESCRIBE_GROUP)),
    "describe_configs": ApiRow(Destination.NAMED, (_TOPIC_CONFIGS, _CLUSTER_CONFIGS, _GROUP_CONFIGS)),
    # The cluster.
    "create_topics": ApiRow(_CONTROLLER, (_CREATE_CLUSTER, _CREATE_TOPIC, _TOPIC_CONFIGS)),
    "delete_topics": ApiRow(_CONTROLLER, (_DELETE_TOPIC, _DESCRIBE_TOPIC)),
    "create_partitions": ApiRow(_CONTROLLER, (_ALTER_TOPIC,)),
    "alter_configs": ApiRow(_CONTROLLER, (_ALTER_TOPIC_CONFIGS, _ALTER_CLUSTER_CONFIGS, _ALTER_GROUP_CONFIGS)),
    "incremental_alter_configs": ApiRow(
        _CONTROLLER, (_ALTER_TOPIC_CONFIGS, _ALTER_CLUSTER_CONFIGS, _ALTER_GROUP_CONFIGS)
    ),
    "create_acls": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "delete_acls": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "alter_user_scram_credentials": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "create_delegation_token": ApiRow(_CONTROLLER, (_CREATE_TOKENS,)),  # only for another user
    "renew_delegation_token": ApiRow(_CONTROLLER, ()),  # its owner and renewers may
    "expire_delegation_token": ApiRow(_CONTROLLER, ()),
    "alter_client_quotas": ApiRow(_CONTROLLER, (_ALTER_CLUSTER_CONFIGS,)),
    "update_features": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "elect_leaders": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "alter_partition_reassignments": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "list_partition_reassignments": ApiRow(_CONTROLLER, (_DESCRIBE_CLUSTER,)),
    "unregister_broker": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "describe_quorum": ApiRow(_CONTROLLER, (_DESCRIBE_CLUSTER,)),
    "add_raft_voter": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    "remove_raft_voter": ApiRow(_CONTROLLER, (_ALTER_CLUSTER,)),
    # From brokers only.
    "broker_registration": ApiRow(_CONTROLLER, (_CLUSTER_ACTION,)),
    "broker_heartbeat": ApiRow(_CONTROLLER, (_CLUSTER_ACTION,)),
    "alter_partition": ApiRow(_CONTROLLER, (_CLUSTER_ACTION,)),
    "allocate_producer_ids": ApiRow(_CONTROLLER, (_CLUSTER_ACTION,)),
}
ROWS: dict[int, ApiRow] = {api.key: _ROWS[api.name] for api in EVERY_API.values()}
PLACES: dict[int, Destination] = {api_key: ROWS[api_key].place for api_key in APIS}
OVERLAPS = frozenset(api_key for api_key in APIS if ROWS[api_key].overlaps)
# What only nodes may ask.
NODES_ONLY = frozenset(api_key for api_key in APIS if ROWS[api_key].needs == (_CLUSTER_ACTION,))


def at(*places: Destination) -> frozenset[int]:
    """The requests that belong there."""
    return frozenset(key for key, place in PLACES.items() if place in places)


@cache
def module_of(api_key: int) -> ModuleType:
    """The module that answers this request, loaded when first asked for: a node starts without those it never needs."""
    return importlib.import_module(f"chronik.api.{EVERY_API[api_key].name}")


__all__ = [
    "APIS",
    "API_VERSIONS",
    "DIRECT",
    "INSPECT",
    "NODES_ONLY",
    "OVERLAPS",
    "PLACES",
    "ROWS",
    "ApiRow",
    "Destination",
    "at",
    "module_of",
]
