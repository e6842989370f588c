"""Nodes that cannot hear each other: a minority never acknowledges, and when it is over nothing has diverged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from chronik.testing import RunningCluster, RunningNode
from tests.cluster.load import ConfluentLoad, check_producers, under_load
from tests.cluster.namespaces import Namespaces, NoNamespaces, namespaces
from tests.cluster.replicas import wait_until_replicas_agree
from tests.cluster.support import (
    ANSWER_S,
    PARTITIONS,
    check_logs,
    controller_of,
    create_topic,
    leader_of,
    told_by,
    wait_until,
    wait_until_in_sync,
    wait_until_told_truly,
)
from tests.cluster.wire_client import WireClient, produce
from tests.recovery.ledger import Ledger, check_delivered, check_dense, consume_all

APART_S = 9.0  # longer than any session or election
PRODUCE_MS = 1_000
# Clients reach the node that is cut off, and wait for it as long as they are told to: half a minute by default.
IMPATIENT = {"request.timeout.ms": 2_000, "socket.timeout.ms": 5_000}


@dataclass
class Stubborn:
    """Produces with acks=all to one node over and over, whatever leads, and keeps what it is told."""

    node: RunningNode
    topic: str
    partition: int
    codes: Counter[int] = field(default_factory=Counter)
    acknowledged: list[bytes] = field(default_factory=list)
    tried: int = 0

    def run_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.try_once()

    def try_once(self) -> None:
        value = b"minority %d" % self.tried
        self.tried += 1
        try:
            with WireClient(self.node.host, self.node.port, ANSWER_S) as client:
                answer = produce(client, self.topic, self.partition, value, timeout_ms=PRODUCE_MS)
        except OSError:
            return
        self.codes[answer.code] += 1
        if answer.code == 0:
            self.acknowledged.append(value)

    def is_acknowledged_now(self) -> bool:
        self.try_once()
        return bool(self.acknowledged)


@pytest.fixture(scope="module")
def network() -> Iterator[Namespaces]:
    try:
        with namespaces(1, 2, 3) as made:
            yield made
    except NoNamespaces as problem:
        pytest.skip(f"network namespaces: {problem}")


@pytest.fixture(scope="module")
def apart(network: Namespaces, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Three nodes, each on a network of its own."""
    cluster = RunningCluster(3, str(tmp_path_factory.mktemp("apart")), {})
    hosts = {node_id: network.host(node_id) for node_id in cluster.nodes}
    voters = ",".join(f"{node_id}@{hosts[node_id]}:{node.port}" for node_id, node in cluster.nodes.items())
    for node_id, node in cluster.nodes.items():
        node.host = hosts[node_id]
        node.launched_by = ["ip", "netns", "exec", network.name(node_id)]
        node.settings["controller.quorum.voters"] = voters
    try:
        cluster.start()
        yield cluster
        cluster.stop()
        check_logs(cluster)
    finally:
        cluster.kill_all()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_node_that_is_cut_off_never_acknowledges_and_nothing_diverges(
    apart: RunningCluster, network: Namespaces, who: str
) -> None:
    topic, ledger = create_topic(apart.bootstrap), Ledger()
    wait_until_in_sync(apart, topic)
    lonely = controller_of(apart) if who == "controller" else leader_of(apart, topic)
    partition = next((number for number in range(PARTITIONS) if leader_of(apart, topic, number) == lonely), 0)
    others = [node_id for node_id in apart.nodes if node_id != lonely]
    majority = ",".join(apart.nodes[node_id].bootstrap for node_id in others)
    stubborn = Stubborn(apart.nodes[lonely], topic, partition)
    load = ConfluentLoad("majority", majority, topic, ledger, {"enable.idempotence": True, **IMPATIENT})
    with under_load(load):
        time.sleep(0.5)
        with network.apart([lonely], others):
            acknowledged_before = len(load.acknowledged)
            stubborn.run_for(APART_S)
            wait_until(lambda: leads_nothing(apart, others, lonely, topic), "the majority leads what it led")
            wait_until(lambda: len(load.acknowledged) > acknowledged_before + 300, "the majority goes on")
            stubborn.run_for(APART_S / 4)
            assert stubborn.acknowledged == [], f"a minority acknowledged {stubborn.acknowledged}"
            assert stubborn.tried > 0
        wait_until_in_sync(apart, topic)
        wait_until_told_truly(apart, topic)

    delivered = consume_all(apart.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in apart.nodes.values()))
    check_dense(delivered)
    check_producers([load], delivered.values())
    wait_until_replicas_agree(apart, topic, PARTITIONS)
    stubborn.try_once()
    assert len(stubborn.acknowledged) == 1, f"when it is over all nodes take messages again: {stubborn.codes}"


def leads_nothing(cluster: RunningCluster, others: list[int], lonely: int, topic: str) -> bool:
    told = [told_by(cluster.nodes[node_id], [topic]) for node_id in others]
    return all(each is not None and not {lonely, -1} & set(each.leaders.values()) for each in told)


@pytest.mark.timeout(180)
def test_with_all_cut_apart_nobody_acknowledges_and_all_goes_on_after(
    apart: RunningCluster, network: Namespaces
) -> None:
    topic = create_topic(apart.bootstrap)
    wait_until_in_sync(apart, topic)
    everybody = [Stubborn(node, topic, number - 1) for number, node in apart.nodes.items()]
    with network.apart([1], [2, 3]), network.apart([2], [3]):
        threads = [threading.Thread(target=each.run_for, args=(APART_S,)) for each in everybody]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.acknowledged for each in everybody] == [[], [], []]

    wait_until_told_truly(apart, topic)
    for each in everybody:
        wait_until(each.is_acknowledged_now, "it is acknowledged again")
    wait_until_in_sync(apart, topic)
    wait_until_replicas_agree(apart, topic, PARTITIONS)


@pytest.mark.timeout(180)
def test_a_leader_that_stood_still_acknowledges_nothing_that_is_then_lost(cluster: RunningCluster) -> None:
    """SIGSTOP: its connections stay open, and when it goes on it does not know that another leads."""
    topic, ledger = create_topic(cluster.bootstrap), Ledger()
    wait_until_in_sync(cluster, topic)
    still = leader_of(cluster, topic)
    others = ",".join(node.bootstrap for node_id, node in cluster.nodes.items() if node_id != still)
    load = ConfluentLoad("others", others, topic, ledger, {"enable.idempotence": True, **IMPATIENT})
    waiting = WireClient(cluster.nodes[still].host, cluster.nodes[still].port, timeout_s=150)
    told: list[int] = []
    with under_load(load):
        time.sleep(0.5)
        cluster.pause(still)
        # It will read this when it goes on, and believe that it leads.
        late = threading.Thread(target=lambda: told.append(produce(waiting, topic, 0, b"late").code))
        late.start()
        running = {node_id: node for node_id, node in cluster.nodes.items() if node_id != still}
        wait_until(lambda: leads_nothing(cluster, list(running), still, topic), "another node leads")
        acknowledged_before = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) > acknowledged_before + 100, "the others go on")
        cluster.resume(still)
        wait_until_in_sync(cluster, topic)
        late.join()
    waiting.close()

    delivered = consume_all(cluster.bootstrap, topic, PARTITIONS)
    check_delivered(ledger, delivered, topic, *(node.data_dir for node in cluster.nodes.values()))
    check_dense(delivered)
    check_producers([load], delivered.values())
    # Refused, or forwarded to which node leads now: then it is there, once.
    assert list(delivered.values()).count(b"late") == told.count(0), told
    wait_until_replicas_agree(cluster, topic, PARTITIONS)
