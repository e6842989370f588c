"""EndQuorumEpoch (54), version 1: a leader resigns, and names who should follow it. Only our nodes ask it."""

from __future__ import annotations

from typing import Any

from kio.schema.end_quorum_epoch.v1 import request as asked
from kio.schema.end_quorum_epoch.v1 import response as wire
from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import PARTITION, answered, check_sender, id_of, leader_of, only_partition, quorum_of
from chronik.core.errors import Code
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.raft.messages import EndEpoch, EndEpochAnswer

KEY = 54
REQUEST = EndQuorumEpochRequest
RESPONSE = EndQuorumEpochResponse


def handle(request: EndQuorumEpochRequest, caller: Caller, context: RequestContext) -> EndQuorumEpochResponse:
    part = only_partition(request.topics)
    check_sender(request.cluster_id, part.leader_id, caller, context)
    successors = tuple(candidate.candidate_id for candidate in part.preferred_candidates)
    answer = quorum_of(context).step(EndEpoch(part.leader_id, part.leader_epoch, successors))
    partition_answer = wire.PartitionData(
        partition_index=PARTITION, error_code=answer.code, leader_id=id_of(answer.leader), leader_epoch=answer.epoch
    )
    topics = (wire.TopicData(topic_name=METADATA_TOPIC, partitions=(partition_answer,)),)
    return EndQuorumEpochResponse(error_code=Code.NONE, topics=topics)


def refuse(request: EndQuorumEpochRequest, code: Code, message: str | None) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(error_code=code, topics=())


# --- the asking side


def request_of(end: EndEpoch, to: int, cluster_id: str) -> Any:
    candidates = tuple(asked.ReplicaInfo(candidate_id=node, candidate_directory_id=None) for node in end.successors)
    part = asked.PartitionData(
        partition_index=PARTITION, leader_id=end.sender, leader_epoch=end.epoch, preferred_candidates=candidates
    )
    topics = (asked.TopicData(topic_name=METADATA_TOPIC, partitions=(part,)),)
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=topics, leader_endpoints=())


def answer_of(response: Any, end: EndEpoch, sender: int) -> EndEpochAnswer:
    """Raises Refused."""
    part = answered(response)
    return EndEpochAnswer(sender, part.leader_epoch, leader_of(part.leader_id), Code(part.error_code))
