"""When a change of topics is answered, every live node has applied it; one that hangs delays the answer a little."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator
from itertools import count

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest

from chronik.api.applied import APPLIED_MS_MAX
from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from tests.cluster.support import controller_of, leader_of, new_name, wait_until, wait_until_told_truly
from tests.cluster.wire_client import WireClient, metadata, produce

IN_TIME = 50  # answers that must be true, of each kind
BOUND_S = APPLIED_MS_MAX / 1000
# A node is fenced when its session ends: without the bound the answer would come then.
SESSION_MS = 60_000
WELL_BEFORE_THE_SESSION_ENDS_S = 40.0


@pytest.fixture
def clients(cluster: RunningCluster) -> Iterator[dict[int, WireClient]]:
    """A connection to each node."""
    with contextlib.ExitStack() as stack:
        yield {
            node_id: stack.enter_context(WireClient(node.host, node.port)) for node_id, node in cluster.nodes.items()
        }


def create(client: WireClient, topic: str) -> float:
    """One partition, on all nodes. Returns how many seconds the answer took."""
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=3, assignments=(), configs=())
    began = time.monotonic()
    answer = client.ask(CreateTopicsRequest(topics=(wanted,), timeout=datetime.timedelta(seconds=30)))
    assert [int(one.error_code) for one in answer.topics] == [0]
    return time.monotonic() - began


def delete(client: WireClient, topic: str) -> float:
    began = time.monotonic()
    answer = client.ask(DeleteTopicsRequest(topic_names=(topic,), timeout=datetime.timedelta(seconds=30)))
    assert [int(one.error_code) for one in answer.responses] == [0]
    return time.monotonic() - began


def is_known(client: WireClient, topic: str) -> bool:
    return (topic, 0) in metadata(client, [topic]).leaders


def test_the_very_next_request_to_any_node_finds_the_topic_there_or_gone(
    cluster: RunningCluster, clients: dict[int, WireClient]
) -> None:
    """An answer that took as long as the bound promises nothing: a busy machine gives more of those, and then more
    topics are needed until enough answers have promised something. Where none ever does, the time limit ends this."""
    created, deleted, unknown, late = 0, 0, [], []
    for number in count():
        if min(created, deleted) >= IN_TIME:
            break
        topic = new_name()
        asked = clients[number % 3 + 1]
        others = [client for client in clients.values() if client is not asked]
        took_s = create(asked, topic)
        found = [is_known(client, topic) for client in others]
        if took_s < BOUND_S:
            created += 1
            unknown += [topic] * found.count(False)
        wait_until(lambda: all(is_known(client, topic) for client in clients.values()), "it is known")  # noqa: B023
        assert [produce(client, topic, 0, b"x").code for client in others] == [0, 0]
        took_s = delete(asked, topic)
        found = [is_known(client, topic) for client in others]
        if took_s < BOUND_S:
            deleted += 1
            late += [topic] * found.count(True)
        wait_until(lambda: not any(is_known(client, topic) for client in clients.values()), "it is gone")  # noqa: B023

    assert (unknown, late) == ([], [])


@pytest.fixture
def patient_cluster() -> Iterator[RunningCluster]:
    with start_cluster(3, {"broker.session.timeout.ms": f"{SESSION_MS}"}) as running:
        yield running


def test_a_node_that_hangs_delays_the_answer_once_and_by_no_more_than_the_bound(
    patient_cluster: RunningCluster,
) -> None:
    cluster = patient_cluster
    controller_id = controller_of(cluster)
    paused_id = next(node_id for node_id in cluster.nodes if node_id != controller_id)
    controller = cluster.nodes[controller_id]
    with WireClient(controller.host, controller.port) as client:
        create(client, new_name())
        cluster.pause(paused_id)
        try:
            took_s = [create(client, new_name()) for _ in range(5)]
        finally:
            cluster.resume(paused_id)

        assert took_s[0] < WELL_BEFORE_THE_SESSION_ENDS_S
        assert sum(took_s[1:]) < WELL_BEFORE_THE_SESSION_ENDS_S
        # Then it counts again.
        topic = new_name()
        create(client, topic)
    assert leader_of(cluster, topic) in cluster.nodes
    wait_until_told_truly(cluster, topic)
