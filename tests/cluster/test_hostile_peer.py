"""Bare sockets that speak in the name of nodes: one packet does not end the quorum, and no progress is claimed.

A busy machine may elect a leader of its own accord meanwhile: nothing here counts on an epoch that stays.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.begin_quorum_epoch.v1 import request as begin_v1
from kio.schema.describe_quorum.v2 import request as describe_v2
from kio.schema.end_quorum_epoch.v1 import request as end_v1
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import request as fetch_v17
from kio.schema.fetch_snapshot.v1 import request as snapshot_v1
from kio.schema.metadata.v12 import request as metadata_v12
from kio.schema.vote.v2 import request as vote_v2

from chronik.core.raft import state_file
from chronik.testing import RunningCluster, RunningNode
from tests.cluster.support import (
    controller_of,
    create_topic,
    followers_of,
    leader_of,
    wait_until,
    wait_until_in_sync,
)
from tests.cluster.wire_client import WireClient, latest_offset, produce

METADATA = "__cluster_metadata"
METADATA_ID = uuid.UUID(int=1)
LAST_EPOCH = 2**31 - 1
NO_VOTER = 99


class Liar:
    """Sends one request to a node, in the name of another if it is told to."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster

    def says(self, to: int, request: Any, *, signed_as: int | None = None) -> Any:
        node = self._cluster.nodes[to]
        name = b"liar" if signed_as is None else b"node-%d" % signed_as
        with WireClient(node.host, node.port, client_id=name) as client:
            if signed_as is not None:
                client.ask(ApiVersionsRequest(client_software_name="chronik", client_software_version="1.0"))
            return client.ask(request)


def code_of(answer: Any) -> ErrorCode:
    """Of the whole answer, or of its partition."""
    if answer.error_code is not ErrorCode.none:
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def vote(cluster_id: str | None, sender: int, epoch: int, *, is_pre_vote: bool) -> Any:
    part = vote_v2.PartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=sender,
        replica_directory_id=None,
        voter_directory_id=None,
        last_offset_epoch=epoch - 1,
        last_offset=2**63 - 1,
        pre_vote=is_pre_vote,
    )
    topics = (vote_v2.TopicData(topic_name=METADATA, partitions=(part,)),)
    return vote_v2.VoteRequest(cluster_id=cluster_id, voter_id=-1, topics=topics)


def begin(cluster_id: str | None, leader: int, epoch: int) -> Any:
    part = begin_v1.PartitionData(partition_index=0, voter_directory_id=None, leader_id=leader, leader_epoch=epoch)
    topics = (begin_v1.TopicData(topic_name=METADATA, partitions=(part,)),)
    return begin_v1.BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=-1, topics=topics, leader_endpoints=())


def end(cluster_id: str | None, leader: int, epoch: int) -> Any:
    part = end_v1.PartitionData(partition_index=0, leader_id=leader, leader_epoch=epoch, preferred_candidates=())
    topics = (end_v1.TopicData(topic_name=METADATA, partitions=(part,)),)
    return end_v1.EndQuorumEpochRequest(cluster_id=cluster_id, topics=topics, leader_endpoints=())


def replica_fetch(
    cluster_id: str | None, replica_id: int, topic_id: uuid.UUID, offset: int, leader_epoch: int, *, broker_epoch: int
) -> Any:
    part = fetch_v17.FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=leader_epoch,
        log_start_offset=0,
        partition_max_bytes=1000,
        replica_directory_id=None,
    )
    return fetch_v17.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch_v17.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
        max_wait=datetime.timedelta(0),
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch_v17.FetchTopic(topic_id=topic_id, partitions=(part,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def snapshot_fetch(cluster_id: str, sender: int, epoch: int, max_bytes: int) -> Any:
    part = snapshot_v1.PartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=snapshot_v1.SnapshotId(end_offset=0, epoch=0),
        position=-1,
    )
    topics = (snapshot_v1.TopicSnapshot(name=METADATA, partitions=(part,)),)
    return snapshot_v1.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=sender, max_bytes=max_bytes, topics=topics
    )


def epoch_of(node: RunningNode) -> int:
    """Of the quorum, as this node has it."""
    asked = describe_v2.TopicData(topic_name=METADATA, partitions=(describe_v2.PartitionData(partition_index=0),))
    with WireClient(node.host, node.port) as client:
        answer = client.ask(describe_v2.DescribeQuorumRequest(topics=(asked,)))
    return int(answer.topics[0].partitions[0].leader_epoch)


@pytest.fixture(scope="module")
def topic(cluster: RunningCluster) -> str:
    name = create_topic(cluster.bootstrap, partitions=1)
    wait_until_in_sync(cluster, name)
    return name


def check_serves(cluster: RunningCluster, topic: str) -> None:
    """Every node has its vote, can start again with it, and takes part."""
    for node in cluster.nodes.values():
        with open(f"{node.data_dir}/{METADATA}-0/{state_file.FILE_NAME}", "rb") as state:
            assert state_file.decode(state.read()).epoch < 10_000
    leader = cluster.nodes[leader_of(cluster, topic)]
    with WireClient(leader.host, leader.port) as client:
        assert produce(client, topic, 0, b"after").code == 0
    create_topic(cluster.bootstrap)  # the quorum decides
    wait_until(lambda: len({epoch_of(node) for node in cluster.nodes.values()}) == 1, "one epoch")


@pytest.mark.parametrize("is_pre_vote", [True, False], ids=["pre-vote", "vote"])
def test_one_vote_does_not_end_the_quorum(cluster: RunningCluster, topic: str, is_pre_vote: bool) -> None:
    liar, ours = Liar(cluster), cluster.cluster_id

    for to in cluster.nodes:
        other = 1 + to % 3
        for code, cluster_id, sender, signed_as in (
            (ErrorCode.inconsistent_cluster_id, None, NO_VOTER, None),  # the packet of the review
            (ErrorCode.inconsistent_cluster_id, "another", other, other),
            (ErrorCode.cluster_authorization_failed, ours, NO_VOTER, None),
            (ErrorCode.cluster_authorization_failed, ours, other, NO_VOTER),
            (ErrorCode.inconsistent_voter_set, ours, NO_VOTER, NO_VOTER),
            (ErrorCode.unknown_leader_epoch, ours, other, other),
        ):
            request = vote(cluster_id, sender, LAST_EPOCH, is_pre_vote=is_pre_vote)
            # A node that hears no leader just now would listen to a voter that it does not know, within reach.
            also = {ErrorCode.unknown_leader_epoch} if signed_as == sender == NO_VOTER else set()
            assert code_of(liar.says(to, request, signed_as=signed_as)) in {code, *also}, (to, sender, signed_as)

    check_serves(cluster, topic)


def test_another_leader_of_the_current_epoch_is_refused(cluster: RunningCluster, topic: str) -> None:
    liar, ours = Liar(cluster), cluster.cluster_id

    def is_refused(to: int, make: Callable[[str, int, int], Any]) -> bool:
        """Of a node that follows the leader of that epoch; a moment later there may be another epoch."""
        controller = controller_of(cluster)
        other = next(node_id for node_id in cluster.nodes if node_id not in (to, controller))
        request = make(ours, other, epoch_of(cluster.nodes[to]))
        return code_of(liar.says(to, request, signed_as=other)) is ErrorCode.invalid_request

    for to in cluster.nodes:
        for make in (begin, end):
            wait_until(partial(is_refused, to, make), "a refusal of the second leader")
            assert code_of(liar.says(to, make(None, NO_VOTER, 1))) is ErrorCode.inconsistent_cluster_id

    check_serves(cluster, topic)


def test_a_later_epoch_within_reach_disturbs_and_does_not_end_it(cluster: RunningCluster, topic: str) -> None:
    """In the name of a voter, signed as it: what only authentication can keep out."""
    liar, ours = Liar(cluster), cluster.cluster_id
    before = epoch_of(cluster.nodes[controller_of(cluster)])

    for to in cluster.nodes:
        other = 1 + to % 3
        liar.says(to, begin(ours, other, before + 5), signed_as=other)

    wait_until(lambda: epoch_of(cluster.nodes[1]) > before, "a later epoch")
    check_serves(cluster, topic)


def test_a_claimed_replica_has_no_progress(cluster: RunningCluster, topic: str) -> None:
    liar, leader = Liar(cluster), leader_of(cluster, topic)
    node, followers = cluster.nodes[leader], followers_of(cluster, topic)
    with WireClient(node.host, node.port) as client:
        _, before = latest_offset(client, topic, 0)
        topic_id, leader_epoch = place_of(cluster, topic)
        for follower in followers:
            cluster.pause(follower)
        try:
            assert produce(client, topic, 0, b"not safe", acks=1).code == 0
            for claimed in followers:
                for signed_as, broker_epoch, code in (
                    (None, -1, ErrorCode.cluster_authorization_failed),
                    (leader, -1, ErrorCode.cluster_authorization_failed),
                    (claimed, 2**63 - 1, ErrorCode.stale_broker_epoch),
                    (claimed, 0, ErrorCode.stale_broker_epoch),
                    (claimed, -1, ErrorCode.none),
                ):
                    request = replica_fetch(
                        None, claimed, topic_id, before + 1, leader_epoch, broker_epoch=broker_epoch
                    )
                    assert liar.says(leader, request, signed_as=signed_as).error_code is code
            assert latest_offset(client, topic, 0)[1] == before
        finally:
            for follower in followers:
                cluster.resume(follower)
        wait_until(lambda: latest_offset(client, topic, 0)[1] == before + 1, "the followers' own progress")


def place_of(cluster: RunningCluster, topic: str) -> tuple[uuid.UUID, int]:
    wanted = (metadata_v12.MetadataRequestTopic(topic_id=None, name=topic),)
    node = cluster.nodes[leader_of(cluster, topic)]
    with WireClient(node.host, node.port) as client:
        request = metadata_v12.MetadataRequest(
            topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = client.ask(request)
    return answer.topics[0].topic_id, answer.topics[0].partitions[0].leader_epoch


def _is(code: ErrorCode, ask: Callable[[int], ErrorCode], value: int) -> bool:
    return ask(value) is code


def test_fetches_of_the_metadata_in_the_name_of_a_voter_are_refused(cluster: RunningCluster, topic: str) -> None:
    liar, ours = Liar(cluster), cluster.cluster_id

    def fetched(cluster_id: str | None, offset: int, *, is_signed: bool = True) -> Any:
        controller = controller_of(cluster)
        other, epoch = 1 + controller % 3, epoch_of(cluster.nodes[controller])
        request = replica_fetch(cluster_id, other, METADATA_ID, offset, epoch, broker_epoch=-1)
        return liar.says(controller, request, signed_as=other if is_signed else None)

    def part_code(offset: int) -> ErrorCode:
        return ErrorCode(fetched(ours, offset).responses[0].partitions[0].error_code)

    def snapshot_code(max_bytes: int) -> ErrorCode:
        controller = controller_of(cluster)
        other, epoch = 1 + controller % 3, epoch_of(cluster.nodes[controller])
        return code_of(liar.says(controller, snapshot_fetch(ours, other, epoch, max_bytes), signed_as=other))

    assert fetched(None, 1).error_code is ErrorCode.inconsistent_cluster_id
    assert fetched("another", 1).error_code is ErrorCode.inconsistent_cluster_id
    assert fetched(ours, 1, is_signed=False).error_code is ErrorCode.cluster_authorization_failed
    wait_until(lambda: fetched(ours, 10**9).responses[0].partitions[0].diverging_epoch.epoch >= 0, "where logs part")
    wait_until(lambda: part_code(-(2**63)) is ErrorCode.invalid_request, "a refusal")
    for max_bytes in (-1, -(2**31), 2**31 - 1):
        wait_until(partial(_is, ErrorCode.snapshot_not_found, snapshot_code, max_bytes), "a refusal")
    check_serves(cluster, topic)


def test_every_node_starts_again_with_its_vote(cluster: RunningCluster, topic: str) -> None:
    """Whatever was said in the other tests of this module."""
    for node_id, node in cluster.nodes.items():
        cluster.restart(node_id)
        with open(node.log_path, encoding="utf-8") as printed:
            assert "has no vote" not in printed.read()
    cluster.wait_until_ready()
    check_serves(cluster, topic)
