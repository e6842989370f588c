"""Three real nodes that log in to each other by SCRAM, and clients that log in by PLAIN and SCRAM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from chronik.client.cluster_view import ClusterView, view_of
from chronik.core.access.scram import ScramClient
from chronik.core.access.scram import ScramMechanism as Mechanism
from chronik.shell.ports import free_ports
from chronik.testing import RunningCluster, RunningNode
from tests.clients.support import wait_until
from tests.cluster.wire_client import WireClient

MODULE = "org.apache.kafka.common.security"
USERS = (
    f'{MODULE}.plain.PlainLoginModule required username="node" password="node-secret"'
    ' user_admin="admin-secret" user_node="node-secret";'
)
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT,LOOKS:PLAINTEXT",
    "inter.broker.listener.name": "NODES",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.jaas.config": USERS,
    "super.users": "User:node;User:admin",
    "connection.failed.authentication.delay.ms": "10",
}


def login(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


class SaslCluster(RunningCluster):
    """Its nodes show who is there on a listener where nothing has to log in, which the nodes do not use."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        super().__init__(3, str(directory), settings)
        ports = free_ports(6)
        of_nodes, self._open = dict(zip(self.nodes, ports, strict=False)), dict(zip(self.nodes, ports[3:], strict=True))
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in of_nodes.items())
        self._for_nodes = ",".join(f"127.0.0.1:{port}" for port in of_nodes.values())
        for node_id, node in self.nodes.items():
            node.more_listeners = f",NODES://127.0.0.1:{of_nodes[node_id]},LOOKS://127.0.0.1:{self._open[node_id]}"
            node.settings["controller.quorum.voters"] = voters

    def add_node(self) -> RunningNode:
        """A fourth, which asks the nodes' listeners of the others."""
        port, of_nodes, self._open[4] = free_ports(3)
        added = self._new_node(4, port, {"controller.quorum.bootstrap.servers": self._for_nodes})
        added.more_listeners = f",NODES://127.0.0.1:{of_nodes},LOOKS://127.0.0.1:{self._open[4]}"
        added.start()
        return added

    def view(self, node_id: int) -> ClusterView:
        return view_of(("127.0.0.1", self._open[node_id]))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    made = SaslCluster(tmp_path_factory.mktemp("sasl"))
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.kill_all()


def produced(cluster: SaslCluster, settings: dict[str, Any], value: str, topic: str = "t") -> object:
    """None, or why it was not."""
    errors: list[object] = []
    told: list[object] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 20_000, **settings},
        error_cb=lambda error: told.append(error.name()),
        logger=None,
    )
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    for _ in range(200):
        producer.poll(0.1)
        if errors or "_AUTHENTICATION" in told:
            break
    producer.purge()
    return errors[0] if errors else told


def test_a_user_of_plain_is_let_in_and_a_wrong_password_is_not(cluster: SaslCluster) -> None:
    assert produced(cluster, login("admin", "admin-secret"), "one") is None
    assert "_AUTHENTICATION" in str(produced(cluster, login("admin", "wrong"), "two"))
    assert "_AUTHENTICATION" in str(produced(cluster, login("nobody", "wrong"), "three"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_new_user_of_scram_is_let_in_by_every_node_and_out_again(cluster: SaslCluster, mechanism: str) -> None:
    # Given a user that an administrator made
    number = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}[mechanism]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **login("admin", "admin-secret")})
    user = f"alice-{mechanism}"
    wanted = UserScramCredentialUpsertion(user, ScramCredentialInfo(number, 4096), b"alice-secret")
    admin.alter_user_scram_credentials([wanted])[user].result(30)

    # Then it logs in on each node, with its password and no other
    for node in cluster.nodes.values():
        settings = {"bootstrap.servers": node.bootstrap, "group.id": "g", **login(user, "alice-secret", mechanism)}
        consumer = confluent_kafka.Consumer(settings)
        assert len(consumer.list_topics(timeout=20).brokers) == 3
        consumer.close()
    assert produced(cluster, login(user, "alice-secret", mechanism), "four") is None
    assert "_AUTHENTICATION" in str(produced(cluster, login(user, "hers", mechanism), "five"))


class LoggedIn(WireClient):
    """One connection to one node, of a user of SCRAM."""

    def __init__(self, bootstrap: str, user: str, password: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        super().__init__(host, int(port))
        self.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        scram = ScramClient(Mechanism.SHA_256, user, password, "a nonce")
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=scram.first()))
        assert self.ask(SaslAuthenticateRequest(auth_bytes=scram.final(answer.auth_bytes))).error_code == 0

    def wait_until_closed(self) -> None:
        """Raises TimeoutError."""
        with contextlib.suppress(ConnectionError):
            self._read(1)
        self.close()


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "another password"])
def test_the_connections_of_a_user_end_on_every_node(cluster: SaslCluster, is_removed: bool) -> None:
    """F71. Nothing else closes them within the time that is waited here: they may be idle for ten minutes."""
    # Given a user with a connection to each node, and others
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **login("admin", "admin-secret")})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for user in ("mallory", "trent"):
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"secret")])[user].result(30)
    mallory, trent = (
        [LoggedIn(node.bootstrap, user, "secret") for node in cluster.nodes.values()] for user in ("mallory", "trent")
    )

    # When it is removed, or its password changed
    if is_removed:
        change: Any = UserScramCredentialDeletion("mallory", ScramMechanism.SCRAM_SHA_256)
    else:
        change = UserScramCredentialUpsertion("mallory", info, b"another")
    admin.alter_user_scram_credentials([change])["mallory"].result(30)

    # Then its connections are closed, and no others
    for each in mallory:
        each.wait_until_closed()
    asked = MetadataRequest(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    for each in trent:
        assert each.ask(asked).brokers
        each.close()


def test_a_node_joins_a_running_cluster_whose_nodes_log_in(cluster: SaslCluster) -> None:
    """It has to log in before it knows who votes; as a client it would not be told."""
    added = cluster.add_node()
    try:
        wait_until(lambda: cluster.view(1).is_whole([1, 2, 3, 4]), "the others know the fourth")
    finally:
        added.stop()
        cluster.nodes.pop(4)


def test_the_cluster_comes_back_when_all_nodes_start_at_once(cluster: SaslCluster) -> None:
    """No node has the metadata then: the user of the nodes is known without it."""
    cluster.stop()
    cluster.start()
    assert produced(cluster, login("admin", "admin-secret"), "six") is None
