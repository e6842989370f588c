"""Real clients in every way of being let in: PLAIN, SCRAM and certificates, with and without TLS.

One node with a listener for each protocol, ours or, with CHRONIK_TEST_PEER=kafka, Apache Kafka; ACLs count.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from chronik import testing
from chronik.client.security import Security
from chronik.client.security_settings import security_of
from chronik.local_cluster.authority import CertificateAuthority, write_secret
from chronik.shell.ports import free_ports
from tests.clients.apache_kafka import apache_kafka
from tests.clients.checks import Outcomes
from tests.clients.jvm import CLIENTS, jars_of, java_command
from tests.clients.kafka_tools import Tool
from tests.clients.support import FRANZ_GO_SECURED, WAIT_SECONDS, needs

TOPIC = "secured"
WORD = "s3cret-of-a-test"
MODULE = "org.apache.kafka.common.security"
LISTENERS = {"SASL_SSL": "LOGIN", "SSL": "CERT", "SASL_PLAINTEXT": "OPEN"}
WAYS = {
    "PLAIN": ("SASL_SSL", "PLAIN"),
    "SCRAM-256": ("SASL_SSL", "SCRAM-SHA-256"),
    "SCRAM-512": ("SASL_SSL", "SCRAM-SHA-512"),
    "certificate": ("SSL", None),
    "SCRAM-512-without-TLS": ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
}


@dataclass(frozen=True)
class SecuredPeer:
    """The node under test, and what lets a user in."""

    open_address: str
    """Of a listener that asks for nothing: what comes there is a super user."""
    ports: dict[str, int]
    folder: Path

    def bootstrap(self, way: str) -> str:
        return f"127.0.0.1:{self.ports[WAYS[way][0]]}"

    def properties(self, way: str) -> dict[str, str]:
        """Kafka's client properties."""
        protocol, mechanism = WAYS[way]
        said = {"bootstrap.servers": self.bootstrap(way), "security.protocol": protocol}
        if protocol.endswith("SSL"):
            said |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}
        if mechanism is None:
            said |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / "alice.pem")}
        else:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            said["sasl.mechanism"] = mechanism
            said["sasl.jaas.config"] = f'{MODULE}.{module} required username="alice" password="{WORD}";'
        return said

    def security(self, way: str) -> Security:
        return security_of(self.properties(way))

    def write_properties(self, way: str) -> str:
        file = self.folder / f"{way}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties(way).items()))
        return str(file)

    def write_cases(self) -> str:
        """For the programs in other languages."""
        cases = []
        for way, (protocol, mechanism) in WAYS.items():
            files = {"CA": str(self.folder / "ca.pem")} if protocol.endswith("SSL") else {}
            login = (
                {"Store": str(self.folder / "alice.pem")}
                if mechanism is None
                else {"Mechanism": mechanism, "User": "alice", "Password": WORD}
            )
            cases.append({"Name": way, "Bootstrap": self.bootstrap(way), **files, **login})
        file = self.folder / "cases.json"
        file.write_text(json.dumps(cases))
        return str(file)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPeer]:
    folder = tmp_path_factory.mktemp("secured")
    authority = CertificateAuthority.new("tests")
    write_secret(folder / "ca.pem", authority.certificate_pem())
    write_secret(folder / "node.pem", authority.key_store("node"))
    write_secret(folder / "alice.pem", authority.key_store("alice"))
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    more = "".join(f",{name}://127.0.0.1:{ports[protocol]}" for protocol, name in LISTENERS.items())
    protocols = ",".join(f"{name}:{protocol}" for protocol, name in LISTENERS.items())
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **{
            f"listener.name.{listener}.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required"
            f' user_alice="{WORD}";'
            for listener in ("login", "open")
        },
        **{
            f"listener.name.{listener}.scram-sha-{bits}.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;"
            for listener in ("login", "open")
            for bits in (256, 512)
        },
    }
    with contextlib.ExitStack() as stack:
        if os.environ.get("CHRONIK_TEST_PEER") == "kafka":
            (folder / "kafka").mkdir()
            address = stack.enter_context(apache_kafka(jars_of("tools"), folder / "kafka", settings, more))
        else:
            started = testing.RunningNode(str(folder / "node"), settings | {"inter.broker.listener.name": "PLAINTEXT"})
            started.more_listeners = more
            stack.callback(started.kill)
            started.start()
            address = started.bootstrap
        _allow_alice(address)
        yield SecuredPeer(address, ports, folder)


def _allow_alice(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_SECONDS)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        made = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), WORD.encode())
        admin.alter_user_scram_credentials([made])["alice"].result(WAIT_SECONDS)
    rules = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, user, "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for user in ("User:alice", "User:CN=alice,O=chronik")
        for kind, name in ((ResourceType.TOPIC, TOPIC), (ResourceType.GROUP, "*"))
    ]
    for future in admin.create_acls(rules).values():
        future.result(WAIT_SECONDS)


# --- one round trip with each


def with_confluent(peer: SecuredPeer, way: str, value: bytes) -> list[bytes]:
    settings = {"bootstrap.servers": peer.bootstrap(way), **peer.security(way).for_librdkafka()}
    errors: list[Any] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(TOPIC, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_SECONDS)
    assert errors == [None]
    consumer = confluent_kafka.Consumer(settings | {"group.id": f"confluent-{way}"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)])
    seen: list[bytes] = []
    try:
        while value not in seen:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None
            assert message.error() is None
            seen.append(message.value() or b"")
    finally:
        consumer.close()
    return seen


def with_kafka_python(peer: SecuredPeer, way: str, value: bytes) -> list[bytes]:
    needs("kafka")
    import kafka

    settings = {"bootstrap_servers": peer.bootstrap(way), **peer.security(way).for_kafka_python()}
    producer = kafka.KafkaProducer(**settings)
    try:
        producer.send(TOPIC, value).get(WAIT_SECONDS)
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(consumer_timeout_ms=int(WAIT_SECONDS * 1000), **settings)
    seen: list[bytes] = []
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        for record in consumer:
            seen.append(record.value)
            if record.value == value:
                break
    finally:
        consumer.close()
    return seen


def with_aiokafka(peer: SecuredPeer, way: str, value: bytes) -> list[bytes]:
    needs("aiokafka")
    import aiokafka

    async def both_ways() -> list[bytes]:
        settings = {"bootstrap_servers": peer.bootstrap(way), **peer.security(way).for_aiokafka()}
        seen: list[bytes] = []
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(TOPIC, value)
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
        async with consumer, asyncio.timeout(WAIT_SECONDS):
            await consumer.seek_to_beginning()
            while value not in seen:
                seen.append((await consumer.getone()).value)
        return seen

    return asyncio.run(both_ways())


def with_kcat(peer: SecuredPeer, way: str, value: bytes) -> list[bytes]:
    needs("kcat")
    settings = {"bootstrap.servers": peer.bootstrap(way), **peer.security(way).for_librdkafka()}
    config = peer.folder / f"kcat-{way}.conf"
    write_secret(config, "".join(f"{key}={setting}\n" for key, setting in settings.items()))

    def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
        command = ["kcat", "-F", str(config), *arguments, "-t", TOPIC]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    if "SCRAM" in way and _librdkafka_of_kcat() < (2, 6, 1):
        # It says its own nonce twice, which Kafka refuses since 4.0, and so do we (librdkafka's pull request 4895).
        with pytest.raises(AssertionError):
            kcat("-P", stdin=value + b"\n")
        return [value]
    kcat("-P", stdin=value + b"\n")
    return kcat("-C", "-p", "0", "-o", "beginning", "-e", "-q").splitlines()


def _librdkafka_of_kcat() -> tuple[int, ...]:
    printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", printed)
    assert found is not None, printed
    return tuple(map(int, found.groups()))


RoundTrip = Callable[[SecuredPeer, str, bytes], list[bytes]]
HERE: dict[str, RoundTrip] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "kcat": with_kcat,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", HERE)
def test_a_record_there_and_back(peer: SecuredPeer, client: str, way: str) -> None:
    value = f"{client} {way}".encode()
    assert value in HERE[client](peer, way, value)


class Programs:
    """The programs in other languages: each tries every way in one run, when it is first asked for."""

    def __init__(self, peer: SecuredPeer) -> None:
        cases, properties = peer.write_cases(), [peer.write_properties(way) for way in WAYS]
        source = str(CLIENTS / "java" / "secured" / "Secured.java")
        self._commands = {
            "java client": [*java_command(jars_of("client"), source), TOPIC, *properties],
            "kafkajs": ["node", str(CLIENTS / "node" / "secured.js"), cases, TOPIC],
            "franz-go secured": [str(FRANZ_GO_SECURED), cases, TOPIC],
        }
        self._outcomes: dict[str, Outcomes] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Outcomes:
        with self._lock:
            if name not in self._outcomes:
                self._outcomes[name] = Outcomes(self._commands[name])
            return self._outcomes[name]


@pytest.fixture(scope="module")
def programs(peer: SecuredPeer) -> Programs:
    return Programs(peer)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", ["java client", "kafkajs", "franz-go secured"])
def test_a_record_there_and_back_in_other_languages(programs: Programs, client: str, way: str) -> None:
    needs(client, is_bonus=client.startswith("franz-go"))
    programs[client].must_hold(way)


def test_kafkas_tools_make_users_and_rules_that_count(
    peer: SecuredPeer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kafka's tools make users and rules that count, over TLS and with a login."""
    needs("kafka tools")
    tool = Tool(peer.open_address, tmp_path_factory.mktemp("archive"))
    user = ("--entity-type", "users", "--entity-name", "bob")
    tool("kafka-configs", "--alter", "--add-config", f"SCRAM-SHA-512=[password={WORD}]", *user)
    login = peer.security("SCRAM-512").for_librdkafka() | {"sasl.username": "bob"}
    bob = AdminClient({"bootstrap.servers": peer.bootstrap("SCRAM-512"), **login})
    assert TOPIC not in bob.list_topics(timeout=WAIT_SECONDS).topics

    rule = ("--allow-principal", "User:bob", "--operation", "Describe", "--topic", TOPIC)
    tool("kafka-acls", "--add", *rule)
    assert TOPIC in bob.list_topics(timeout=WAIT_SECONDS).topics
    by_login = tool.at(peer.bootstrap("SCRAM-512"))
    config = ("--command-config", peer.write_properties("SCRAM-512"))
    assert TOPIC in by_login("kafka-topics", "--list", *config)
