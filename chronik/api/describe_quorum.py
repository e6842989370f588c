"""DescribeQuorum (55), versions 0-2. The quorum's leader, how far each replica is, and from 2 where the voters are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.describe_quorum.v2 import request as asked
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import PARTITION, answered, only_partition, quorum_of
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.raft.messages import NO_NODE
from chronik.core.raft.view import QuorumView, ReplicaView

KEY = 55
REQUEST = DescribeQuorumRequest
RESPONSE = DescribeQuorumResponse
LISTENER = "CONTROLLER"


def handle(request: DescribeQuorumRequest, caller: Caller, context: RequestContext) -> DescribeQuorumResponse:
    only_partition(request.topics)
    quorum = quorum_of(context)
    try:
        view = quorum.describe()
    except Refused as refused:
        part = _part(refused.code, refused.message, quorum.leader_id, quorum.epoch)
        return _response(part, ())
    part = PartitionData(
        partition_index=PARTITION,
        error_code=Code.NONE,
        error_message=None,
        leader_id=view.leader,
        leader_epoch=view.epoch,
        high_watermark=view.high_watermark,
        current_voters=_states(view.voters),
        observers=_states(view.observers),
    )
    voters = [(voter.node_id, quorum.address_of(voter.node_id)) for voter in view.voters]
    return _response(part, [(node_id, address) for node_id, address in voters if address is not None])


def refuse(request: DescribeQuorumRequest, code: Code, message: str | None) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=message, topics=(), nodes=())


def _part(code: Code, message: str | None, leader: int | None, epoch: int) -> Any:
    return PartitionData(
        partition_index=PARTITION,
        error_code=code,
        error_message=message,
        leader_id=NO_NODE if leader is None else leader,
        leader_epoch=epoch,
        high_watermark=-1,
        current_voters=(),
        observers=(),
    )


def _response(part: Any, nodes: Sequence[tuple[int, tuple[str, int]]]) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        error_code=Code.NONE,
        error_message=None,
        topics=(TopicData(topic_name=METADATA_TOPIC, partitions=(part,)),),
        nodes=tuple(
            Node(node_id=node_id, listeners=(Listener(name=LISTENER, host=host, port=port),))
            for node_id, (host, port) in nodes
        ),
    )


def _states(replicas: tuple[ReplicaView, ...]) -> tuple[Any, ...]:
    return tuple(
        ReplicaState(
            replica_id=replica.node_id,
            replica_directory_id=None,
            log_end_offset=replica.end_offset,
            last_fetch_timestamp=replica.fetched_ms,
            last_caught_up_timestamp=replica.caught_up_ms,
        )
        for replica in replicas
    )


# --- the asking side

REQUEST_OF_ALL = DescribeQuorumRequest(
    topics=(asked.TopicData(topic_name=METADATA_TOPIC, partitions=(asked.PartitionData(partition_index=PARTITION),)),)
)


def view_in(response: Any) -> QuorumView:
    """What a leader answered. Raises Refused, also where it does not know yet what is safe."""
    part = answered(response)
    if part.error_code != Code.NONE:
        raise Refused(Code(part.error_code), part.error_message)
    replicas = (*part.current_voters, *part.observers)
    if part.high_watermark < 0 or not any(replica.replica_id == part.leader_id for replica in replicas):
        raise Refused(Code.LEADER_NOT_AVAILABLE, "the leader of the quorum does not know yet what is safe")
    return QuorumView(
        part.leader_id, part.leader_epoch, part.high_watermark, _views(part.current_voters), _views(part.observers)
    )


def _views(replicas: Sequence[Any]) -> tuple[ReplicaView, ...]:
    found = (
        ReplicaView(
            replica.replica_id, replica.log_end_offset, replica.last_fetch_timestamp, replica.last_caught_up_timestamp
        )
        for replica in replicas
    )
    return tuple(sorted(found))
