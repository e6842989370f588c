"""Three real nodes with a listener for clients and one for themselves."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

from chronik.client.cluster_view import view_of
from chronik.client.request import ask
from chronik.core.errors import Code
from chronik.shell.ports import free_ports
from chronik.testing import RunningCluster


def with_listeners_for_nodes(directory: Path) -> tuple[RunningCluster, dict[int, int]]:
    settings = {"inter.broker.listener.name": "NODES", "listener.security.protocol.map": "NODES:PLAINTEXT"}
    cluster = RunningCluster(3, str(directory), settings)
    ports = dict(zip(cluster.nodes, free_ports(3), strict=True))
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
    for node_id, node in cluster.nodes.items():
        node.more_listeners = f",NODES://127.0.0.1:{ports[node_id]}"
        node.settings["controller.quorum.voters"] = voters
    return cluster, ports


def test_each_listener_tells_its_own_addresses_and_only_one_takes_nodes(tmp_path: Path) -> None:
    cluster, ports = with_listeners_for_nodes(tmp_path)
    try:
        cluster.start()
        # Given a topic that three nodes have, through the listener for clients
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(30):
            producer.produce("t", str(number))
        assert producer.flush(30) == 0

        # Then each listener names the nodes as they are reached by it
        for node_id, node in cluster.nodes.items():
            for_clients = view_of((node.host, node.port))
            assert {port for _, port in for_clients.addresses.values()} == {one.port for one in cluster.nodes.values()}
            for_nodes = view_of(("127.0.0.1", ports[node_id]))
            assert {port for _, port in for_nodes.addresses.values()} == set(ports.values())
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports[1]}"})
        told = admin.describe_cluster().result(30)
        assert {each.port for each in told.nodes} == set(ports.values())

        # And what nodes ask each other is refused on the listener for clients, on each node
        beat = BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=0, current_metadata_offset=0, want_fence=True, want_shut_down=False
        )
        for node in cluster.nodes.values():
            refused = ask((node.host, node.port), beat, 10)
            assert refused.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
        cluster.stop()
    finally:
        cluster.kill_all()
