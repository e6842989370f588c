"""Vote (52), versions 0-2. A voter wants to be elected; from 2 it may ask whether it would be (KIP-996)."""

from __future__ import annotations

from typing import Any

from kio.schema.vote.v2 import request as asked
from kio.schema.vote.v2 import response as wire
from kio.schema.vote.v2.request import VoteRequest
from kio.schema.vote.v2.response import VoteResponse

from chronik.api.context import Caller, RequestContext
from chronik.api.quorum_topic import PARTITION, answered, check_sender, id_of, leader_of, only_partition, quorum_of
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.raft.messages import LogPoint, Vote, VoteAnswer

KEY = 52
REQUEST = VoteRequest
RESPONSE = VoteResponse


def handle(request: VoteRequest, caller: Caller, context: RequestContext) -> VoteResponse:
    part = only_partition(request.topics)
    check_sender(request.cluster_id, part.replica_id, caller, context)
    if request.voter_id not in (-1, context.node_id):
        raise Refused(Code.INVALID_VOTER_KEY, f"this is node {context.node_id}, and not {request.voter_id}")
    log_end = LogPoint(part.last_offset_epoch, part.last_offset)
    answer = quorum_of(context).step(Vote(part.replica_id, part.replica_epoch, log_end, part.pre_vote))
    return _response(answer.code, answer.leader, answer.epoch, answer.is_granted)


def refuse(request: VoteRequest, code: Code, message: str | None) -> VoteResponse:
    return VoteResponse(error_code=code, topics=())


def _response(code: Code, leader: int | None, epoch: int, is_granted: bool) -> VoteResponse:
    part = wire.PartitionData(
        partition_index=PARTITION, error_code=code, leader_id=id_of(leader), leader_epoch=epoch, vote_granted=is_granted
    )
    return VoteResponse(error_code=Code.NONE, topics=(wire.TopicData(topic_name=METADATA_TOPIC, partitions=(part,)),))


# --- the asking side


def request_of(vote: Vote, to: int, cluster_id: str) -> Any:
    part = asked.PartitionData(
        partition_index=PARTITION,
        replica_epoch=vote.epoch,
        replica_id=vote.sender,
        replica_directory_id=None,
        voter_directory_id=None,
        last_offset_epoch=vote.log_end.epoch,
        last_offset=vote.log_end.end_offset,
        pre_vote=vote.is_pre_vote,
    )
    topics = (asked.TopicData(topic_name=METADATA_TOPIC, partitions=(part,)),)
    return VoteRequest(cluster_id=cluster_id, voter_id=to, topics=topics)


def answer_of(response: Any, vote: Vote, sender: int) -> VoteAnswer:
    """Raises Refused."""
    part = answered(response)
    leader, is_granted, code = leader_of(part.leader_id), part.vote_granted, Code(part.error_code)
    return VoteAnswer(sender, part.leader_epoch, leader, is_granted, vote.is_pre_vote, code)
