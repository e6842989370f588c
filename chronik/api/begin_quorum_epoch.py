"""BeginQuorumEpoch (53), version 1: the leader of a new epoch tells the voters that it leads. Only our nodes ask it."""

from __future__ import annotations

from typing import Any

from kio.schema.begin_quorum_epoch.v1 import request as asked
from kio.schema.begin_quorum_epoch.v1 import response as wire
from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.begin_quorum_epoch.v1.response import BeginQuorumEpochResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import PARTITION, answered, check_sender, id_of, leader_of, only_partition, quorum_of
from chronik.core.errors import Code
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.raft.messages import BeginEpoch, BeginEpochAnswer

KEY = 53
REQUEST = BeginQuorumEpochRequest
RESPONSE = BeginQuorumEpochResponse


def handle(request: BeginQuorumEpochRequest, caller: Caller, context: RequestContext) -> BeginQuorumEpochResponse:
    part = only_partition(request.topics)
    check_sender(request.cluster_id, part.leader_id, caller, context)
    answer = quorum_of(context).step(BeginEpoch(part.leader_id, part.leader_epoch))
    partition_answer = wire.PartitionData(
        partition_index=PARTITION, error_code=answer.code, leader_id=id_of(answer.leader), leader_epoch=answer.epoch
    )
    topics = (wire.TopicData(topic_name=METADATA_TOPIC, partitions=(partition_answer,)),)
    return BeginQuorumEpochResponse(error_code=Code.NONE, topics=topics)


def refuse(request: BeginQuorumEpochRequest, code: Code, message: str | None) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(error_code=code, topics=())


# --- the asking side


def request_of(begin: BeginEpoch, to: int, cluster_id: str) -> Any:
    part = asked.PartitionData(
        partition_index=PARTITION, voter_directory_id=None, leader_id=begin.sender, leader_epoch=begin.epoch
    )
    topics = (asked.TopicData(topic_name=METADATA_TOPIC, partitions=(part,)),)
    return BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=to, topics=topics, leader_endpoints=())


def answer_of(response: Any, begin: BeginEpoch, sender: int) -> BeginEpochAnswer:
    """Raises Refused."""
    part = answered(response)
    return BeginEpochAnswer(sender, part.leader_epoch, leader_of(part.leader_id), Code(part.error_code))
