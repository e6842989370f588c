"""All we speak, on one page: which module answers which request, how, and on which node it belongs.

`DIRECT` modules take the frame themselves (`start(frame, header, caller, desk, answer)`): the two hot requests. What
they return, if anything, is called when the client is gone before it has its answer. All
others have `handle(request, caller, desk)` and `refuse(request, code, message)`. `OVERLAPS` names the requests behind
which the next one of the same connection may start; behind any other it waits for the answer, so that a client which
sends 'create topic' and 'metadata' in one go sees its topic.
"""

from __future__ import annotations

import importlib
from enum import Enum
from functools import cache
from types import ModuleType

from chronik.wire.versions import API_VERSIONS, APIS, EVERY_API, FETCH, PRODUCE

DIRECT = frozenset({PRODUCE, FETCH})


class Destination(Enum):
    """Where a request is to be answered."""

    ANYWHERE = "the node it was sent to"
    LEADER = "the leader of each partition it names"
    COORDINATOR = "the coordinator of each group it names"
    NAMED = "the node it asks about, if it asks about one"
    ALL = "every node: all of them together have the answer"
    CONTROLLER = "the controller"


# Produce is sent on wherever it was meant to go, and so is what belongs to the controller. The other places count
# only where clients cannot find them by themselves: all nodes have one address (node/routing/one_address.py).
_NAMES = {
    Destination.ANYWHERE: (
        "api_versions",
        "metadata",
        "find_coordinator",
        "init_producer_id",
        "describe_cluster",
        "describe_log_dirs",
        "describe_topic_partitions",
        "describe_acls",
        "describe_user_scram_credentials",
        "list_config_resources",
        # Between nodes: each means the one it is sent to.
        "vote",
        "begin_quorum_epoch",
        "end_quorum_epoch",
        "fetch_snapshot",
    ),
    Destination.LEADER: (
        "produce",
        "fetch",
        "list_offsets",
        "offset_for_leader_epoch",
        "delete_records",
        "describe_producers",
    ),
    Destination.COORDINATOR: (
        "join_group",
        "sync_group",
        "heartbeat",
        "leave_group",
        "offset_commit",
        "offset_fetch",
        "offset_delete",
        "describe_groups",
        "delete_groups",
        "consumer_group_heartbeat",
        "consumer_group_describe",
    ),
    Destination.NAMED: ("describe_configs",),
    Destination.ALL: ("list_groups",),
    Destination.CONTROLLER: (
        "create_topics",
        "delete_topics",
        "create_partitions",
        "alter_configs",
        "incremental_alter_configs",
        "create_acls",
        "delete_acls",
        "alter_user_scram_credentials",
        "update_features",
        "elect_leaders",
        "alter_partition_reassignments",
        "list_partition_reassignments",
        "unregister_broker",
        "describe_quorum",
        "add_raft_voter",
        "remove_raft_voter",
        # From brokers only.
        "broker_registration",
        "broker_heartbeat",
        "alter_partition",
        "allocate_producer_ids",
    ),
}
_PLACES = {name: place for place, names in _NAMES.items() for name in names}
PLACES: dict[int, Destination] = {api.key: _PLACES[api.name] for api in APIS.values()}


def at(*places: Destination) -> frozenset[int]:
    """The requests that belong there."""
    return frozenset(key for key, place in PLACES.items() if place in places)


_OVERLAPPING_NAMES = (
    "produce",
    "fetch",
    "join_group",
    "sync_group",
    "heartbeat",
    "offset_commit",
    "offset_fetch",
    "consumer_group_heartbeat",
)
OVERLAPS = frozenset(api.key for api in APIS.values() if api.name in _OVERLAPPING_NAMES)


@cache
def module_of(api_key: int) -> ModuleType:
    """The module that answers this request, loaded when first asked for: a node starts without those it never needs."""
    return importlib.import_module(f"chronik.api.{EVERY_API[api_key].name}")


__all__ = ["APIS", "API_VERSIONS", "DIRECT", "OVERLAPS", "PLACES", "Destination", "at", "module_of"]
