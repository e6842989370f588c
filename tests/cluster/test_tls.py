"""Three real nodes over TLS, with certificates on both sides: they replicate, and take new certificates meanwhile."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import confluent_kafka

from chronik.client.cluster_view import ClusterView, view_of
from chronik.testing import RunningCluster, RunningNode
from tests.certificates import Authority, needs_openssl
from tests.clients.support import wait_until

pytestmark = needs_openssl


class TlsCluster(RunningCluster):
    """Its nodes answer over TLS only."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        super().__init__(3, str(directory), authority.node_settings("node"))
        self.store = authority.key_store("alice")
        self._context = ssl.create_default_context(cafile=str(authority.certificate))
        self._context.load_cert_chain(str(self.store))

    def view(self, node_id: int) -> ClusterView:
        node = self.nodes[node_id]
        return view_of((node.host, node.port), tls=self._context)


def has_new_certificate(node: RunningNode) -> bool:
    return "has changed: new connections have it" in Path(node.log_path).read_text()


def test_three_nodes_replicate_over_tls_and_take_new_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cluster = TlsCluster(tmp_path / "nodes", authority)
    try:
        cluster.start()
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(cluster.store),
            "ssl.key.location": str(cluster.store),
        }
        failed: list[object] = []
        producer = confluent_kafka.Producer({**settings, "acks": "all"})

        def produce(count: int) -> None:
            for _ in range(count):
                producer.produce("t", b"x" * 500, on_delivery=lambda error, _: failed.append(error) if error else None)
            assert producer.flush(60) == 0

        produce(500)
        # All nodes have one key store here: a new one in its place, then a node killed, so that links are made anew.
        os.replace(authority.key_store("node"), next(iter(cluster.nodes.values())).settings["ssl.keystore.location"])
        wait_until(lambda: all(map(has_new_certificate, cluster.nodes.values())), "the nodes take the new certificate")
        produce(500)
        cluster.kill(cluster.controller_id() or 1)
        produce(500)
        assert failed == []
    finally:
        for node in cluster.nodes.values():
            if node.is_running:
                node.kill()
