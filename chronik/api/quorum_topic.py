"""What the requests of the quorum share: each is about one partition, that of the metadata log, in one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chronik.api.context import Caller, QuorumDesk, RequestContext
from chronik.api.node_sender import check_is_node
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.raft.messages import NO_NODE

METADATA_TOPIC_ID = bytes(15) + b"\x01"
PARTITION = 0


def check_cluster(cluster_id: str | None, context: RequestContext) -> None:
    """Refuse what is meant for another cluster. An administrator may leave open which one is meant."""
    if cluster_id is not None and cluster_id != context.cluster_id:
        message = f"this is cluster {context.cluster_id}, and not {cluster_id}"
        raise Refused(Code.INCONSISTENT_CLUSTER_ID, message)


def check_sender(cluster_id: str | None, node_id: int, caller: Caller, context: RequestContext) -> None:
    """Refuse what is said in the name of a node of this cluster, unless the connection has said that it is that node.

    Kafka also listens to nodes that do not name their cluster. What one of another cluster says of epochs and votes has
    nothing to do with us, so here it is named.
    """
    if cluster_id is None:
        raise Refused(Code.INCONSISTENT_CLUSTER_ID, f"this is cluster {context.cluster_id}, and no cluster was named")
    check_cluster(cluster_id, context)
    check_is_node(node_id, caller)


def remembered(node_id: int, quorum: QuorumDesk) -> int:
    """The sender of a fetch: nothing is remembered of a node that is neither a voter nor registered."""
    return node_id if node_id >= 0 and quorum.address_of(node_id) is not None else NO_NODE


def quorum_of(context: RequestContext) -> QuorumDesk:
    if context.quorum is None:
        raise Refused(Code.NOT_LEADER_OR_FOLLOWER, "this node takes no part in a quorum")
    return context.quorum


def only_partition(topics: Sequence[Any], number_field: str = "partition_index", name_field: str = "topic_name") -> Any:
    """The partition that a request is about. Raises Refused."""
    if len(topics) == 1 and getattr(topics[0], name_field) == METADATA_TOPIC and len(topics[0].partitions) == 1:
        partition = topics[0].partitions[0]
        if getattr(partition, number_field) == PARTITION:
            return partition
    raise Refused(Code.INVALID_REQUEST, f"such a request is about {METADATA_TOPIC}-{PARTITION} and nothing else")


def answered(response: Any, number_field: str = "partition_index", name_field: str = "topic_name") -> Any:
    """The partition in a response of another node. Raises Refused when it is an error."""
    if response.error_code != Code.NONE:
        raise Refused(Code(response.error_code))
    return only_partition(response.topics, number_field, name_field)


def leader_of(leader_id: int) -> int | None:
    return None if leader_id == NO_NODE else leader_id


def id_of(leader: int | None) -> int:
    return NO_NODE if leader is None else leader
