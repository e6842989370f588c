"""Three real nodes over TLS, each with a certificate of its own: which is which, and certificates that are replaced."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest

from chronik.client.cluster_view import ClusterView, view_of
from chronik.core.errors import Code
from chronik.testing import RunningCluster
from chronik.wire.versions import NODE_SOFTWARE, node_name
from tests.certificates import Authority, needs_openssl
from tests.clients.support import wait_until
from tests.cluster.wire_client import WireClient

pytestmark = needs_openssl


class CertifiedCluster(RunningCluster):
    """Its nodes answer over TLS only, and have a certificate each."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        super().__init__(3, str(directory), authority.node_settings("node"))
        self.authority = authority
        principals = ";".join(f"User:CN=node{node_id},O=chronik" for node_id in (*self.nodes, 4))  # which may join
        for node_id, node in self.nodes.items():
            node.settings["ssl.keystore.location"] = str(authority.key_store(f"node{node_id}"))
            node.settings["super.users"] = principals
        self.client = authority.key_store("alice")

    def context(self, store: Path | str) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(self.authority.certificate))
        made.load_cert_chain(str(store))
        return made

    def certificate_of(self, node_id: int) -> bytes | None:
        """What a node shows to a new connection."""
        node = self.nodes[node_id]
        with (
            socket.create_connection((node.host, node.port), timeout=30) as plain,
            self.context(self.client).wrap_socket(plain, server_hostname="localhost") as shown,
        ):
            return shown.getpeercert(binary_form=True)

    def view(self, node_id: int) -> ClusterView:
        node = self.nodes[node_id]
        return view_of((node.host, node.port), tls=self.context(self.client))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CertifiedCluster]:
    folder = tmp_path_factory.mktemp("certificates")
    made = CertifiedCluster(folder / "nodes", Authority(folder))
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.kill_all()


class SecretWireClient(WireClient):
    """Over TLS, with the certificate of a node."""

    def __init__(self, cluster: CertifiedCluster, to: int, certificate_of: int, says: int) -> None:
        node = cluster.nodes[to]
        super().__init__(node.host, node.port, client_id=node_name(says).encode())
        context = cluster.context(cluster.nodes[certificate_of].settings["ssl.keystore.location"])
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    def __enter__(self) -> SecretWireClient:
        return self

    def introduce(self) -> Code:
        asked = ApiVersionsRequest(client_software_name=NODE_SOFTWARE, client_software_version="1")
        return Code(self.ask(asked).error_code)


def test_a_stolen_node_id_is_refused_by_every_node_and_said(cluster: CertifiedCluster) -> None:
    """F64: a certificate is that of one node and of no other, also where the id is the controller's."""
    for to in cluster.nodes:
        for stolen in cluster.nodes:
            other = stolen % 3 + 1
            with SecretWireClient(cluster, to, certificate_of=other, says=stolen) as thief:
                assert thief.introduce() is Code.CLUSTER_AUTHORIZATION_FAILED
                with pytest.raises((ConnectionError, EOFError, OSError)):
                    thief.introduce()
            expected = f"User:CN=node{other},O=chronik may not be node {stolen}"
            assert expected in Path(cluster.nodes[to].log_path).read_text()


def test_a_node_may_not_report_in_the_name_of_another(cluster: CertifiedCluster) -> None:
    controller = cluster.controller_id()
    assert controller is not None
    with SecretWireClient(cluster, controller, certificate_of=3, says=3) as node:
        assert node.introduce() is Code.NONE
        for other in (1, 2):
            beat = BrokerHeartbeatRequest(
                broker_id=other, broker_epoch=0, current_metadata_offset=0, want_fence=True, want_shut_down=True
            )
            assert node.ask(beat).error_code == Code.CLUSTER_AUTHORIZATION_FAILED


def test_certificates_are_rolled_under_load_and_no_produce_fails(cluster: CertifiedCluster) -> None:
    """One node after the other gets a new certificate; clients and nodes connect anew meanwhile."""
    failed: list[object] = []
    sent = 0
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(cluster.authority.certificate),
        "ssl.certificate.location": str(cluster.client),
        "ssl.key.location": str(cluster.client),
        "acks": "all",
    }

    def produce(producer: confluent_kafka.Producer) -> None:
        nonlocal sent
        sent += 1
        producer.produce("t", b"x" * 500, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.01)

    producer = confluent_kafka.Producer(settings, logger=None)
    for node_id, node in cluster.nodes.items():
        before = cluster.certificate_of(node_id)
        os.replace(cluster.authority.key_store(f"node{node_id}"), node.settings["ssl.keystore.location"])
        while cluster.certificate_of(node_id) == before:  # pytest's timeout ends it
            produce(producer)
        late = confluent_kafka.Producer(settings, logger=None)
        produce(late)
        assert late.flush(60) == 0
    assert producer.flush(60) == 0
    assert (failed, sent > len(cluster.nodes)) == ([], True)


def test_a_node_joins_a_running_cluster_over_tls(cluster: CertifiedCluster) -> None:
    """It has to show its certificate before it knows who votes."""
    store = cluster.authority.key_store("node4")
    added = cluster.add({"ssl.keystore.location": str(store), "super.users": cluster.nodes[1].settings["super.users"]})
    try:
        wait_until(lambda: cluster.view(1).is_whole([1, 2, 3, 4]), "the others know the fourth")
    finally:
        added.stop()
        cluster.nodes.pop(4)
