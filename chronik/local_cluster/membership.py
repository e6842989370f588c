"""Requests about who belongs to a cluster, asked of its controller until there is one that answers.

Kafka's own tools have them and its clients do not, so they are sent as plain frames.
"""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chronik.client.cluster_view import ClusterView, Partition
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.request import NoAnswer, ask
from chronik.core.errors import Code
from chronik.local_cluster import processes
from chronik.local_cluster.directory import Address, ClusterDirectory, ClusterNode, address_or_none

CONTROLLER_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 10.0  # of the node, which then says so
ANSWER_TIMEOUT_S = REQUEST_TIMEOUT_S + 5
POLL_S = 0.05
METADATA_TOPIC = "__cluster_metadata"
# The controller has moved or is about to be elected: the next one is asked the same.
PASSING = frozenset(
    (
        Code.NOT_CONTROLLER, Code.NOT_LEADER_OR_FOLLOWER, Code.LEADER_NOT_AVAILABLE, Code.REQUEST_TIMED_OUT,
        Code.BROKER_NOT_AVAILABLE,
    )
)  # fmt: skip


@dataclass(frozen=True)
class QuorumMembers:
    """Which nodes vote on the metadata, and which only follow it; each with the id of its disk."""

    voters: Mapping[int, uuid.UUID | None]
    observers: Mapping[int, uuid.UUID | None]
    addresses: Mapping[int, Address]
    """Where the voters are, as far as the controller knows."""

    @property
    def voter_addresses(self) -> dict[int, Address | None]:
        return {voter: self.addresses.get(voter) for voter in self.voters}


def current_view(cluster: ClusterDirectory) -> ClusterView:
    """The cluster as the first node that answers sees it. Raises ChronikError."""
    for node_id in cluster.alive():
        view = processes.view_from(cluster.nodes[node_id])
        if view is not None:
            return view
    raise ChronikError(
        f"no node of the cluster in {cluster.path} answers",
        f"start it with `chronik cluster start --data-dir {cluster.path}`",
    )


def describe_quorum(cluster: ClusterDirectory) -> QuorumMembers:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name=METADATA_TOPIC, partitions=(PartitionData(partition_index=0),))
    response = _ask_controller(cluster, DescribeQuorumRequest(topics=(topic,)))
    (found,) = response.topics[0].partitions
    _refuse(found.error_code, found.error_message)
    voters, observers = (
        {state.replica_id: state.replica_directory_id for state in states}
        for states in (found.current_voters, found.observers)
    )
    addresses = {
        node.node_id: (node.listeners[0].host, node.listeners[0].port) for node in response.nodes if node.listeners
    }
    return QuorumMembers(voters, observers, addresses)


def add_voter(cluster: ClusterDirectory, node: ClusterNode, directory_id: uuid.UUID | None) -> None:
    from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest, Listener

    host, port = node.address
    request = AddRaftVoterRequest(
        cluster_id=cluster.cluster_id,
        timeout=datetime.timedelta(seconds=REQUEST_TIMEOUT_S),
        voter_id=node.id,
        voter_directory_id=directory_id,
        listeners=(Listener(name="INTERNAL", host=host, port=port),),
    )
    _ask_controller(cluster, request, done_already=Code.DUPLICATE_VOTER)


def remove_voter(cluster: ClusterDirectory, node_id: int, directory_id: uuid.UUID | None) -> None:
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest

    request = RemoveRaftVoterRequest(cluster_id=cluster.cluster_id, voter_id=node_id, voter_directory_id=directory_id)
    _ask_controller(cluster, request, done_already=Code.VOTER_NOT_FOUND)


def unregister(cluster: ClusterDirectory, node_id: int) -> None:
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

    _ask_controller(cluster, UnregisterBrokerRequest(broker_id=node_id), done_already=Code.BROKER_ID_NOT_REGISTERED)


def move(cluster: ClusterDirectory, targets: Mapping[Partition, list[int]]) -> None:
    """Have these partitions held by these nodes; the copying goes on after the answer."""
    from kio.schema.alter_partition_reassignments.v0.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics: dict[str, list[Any]] = {}
    for (topic, number), nodes in targets.items():
        topics.setdefault(topic, []).append(ReassignablePartition(partition_index=number, replicas=tuple(nodes)))
    request = AlterPartitionReassignmentsRequest(
        timeout=datetime.timedelta(seconds=REQUEST_TIMEOUT_S),
        topics=tuple(ReassignableTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
    )
    for topic in _ask_controller(cluster, request).responses:
        for partition in topic.partitions:
            _refuse(partition.error_code, partition.error_message, f"{topic.name}:{partition.partition_index} ")


def _ask_controller(cluster: ClusterDirectory, request: Any, done_already: Code | None = None) -> Any:
    """The controller's answer; while there is none, or it has just moved, the question is asked again."""
    deadline = time.monotonic() + CONTROLLER_TIMEOUT_S
    hindrance = "there is no controller"
    while time.monotonic() < deadline:
        for address in _controller_addresses(cluster):
            try:
                response = ask(address, request, ANSWER_TIMEOUT_S, security=cluster.admin())
            except NoAnswer as problem:
                hindrance = str(problem)
                continue
            code = Code(response.error_code)
            if code not in PASSING:
                if code != done_already:
                    _refuse(response.error_code, getattr(response, "error_message", None))
                return response
            hindrance = code.name
        time.sleep(POLL_S)
    raise ChronikError(f"the cluster does not answer: {hindrance}", "see how it is with `chronik cluster status`")


def _controller_addresses(cluster: ClusterDirectory) -> Iterator[Address]:
    """Where the nodes that answer believe the controller to be."""
    believed = {
        view.controller_id
        for node_id in cluster.alive()
        if (view := processes.view_from(cluster.nodes[node_id])) is not None
    }
    for node_id in sorted(each for each in believed if each is not None):
        address = address_or_none(cluster.nodes[node_id]) if node_id in cluster.nodes else None
        if address is not None:
            yield address


def _refuse(number: int, message: str | None, what: str = "") -> None:
    if number:
        code = Code(number)
        raise RefusedByNode(code, f"{what}{message or 'refused'} ({code.name})")
