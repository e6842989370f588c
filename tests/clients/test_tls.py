"""Real clients over TLS, with certificates on both sides; and what a client may not do although it has one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.vote.v2.request import PartitionData, TopicData, VoteRequest

from chronik import testing
from chronik.client.request import NoAnswer, ask
from chronik.core.errors import Code
from chronik.testing import RunningNode
from tests.certificates import Authority, needs_openssl
from tests.clients.support import needs

needs("kafka")
needs("aiokafka")
import aiokafka  # noqa: E402
import kafka  # noqa: E402

pytestmark = needs_openssl
RECORDS = [b"record %d " % number + b"x" * 2000 for number in range(200)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[RunningNode]:
    with testing.node(authority.node_settings("node")) as node:
        yield node


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Path:
    return authority.key_store("alice")


def client_context(authority: Authority, store: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if store is not None:
        context.load_cert_chain(str(store))
    return context


def librdkafka(node: RunningNode, authority: Authority, store: Path) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(store),
        "ssl.key.location": str(store),
    }


def test_librdkafka_writes_and_reads(secured: RunningNode, authority: Authority, alice: Path) -> None:
    settings = librdkafka(secured, authority, alice)
    producer = confluent_kafka.Producer(settings)
    for value in RECORDS:
        producer.produce("over-tls", value, partition=0)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["over-tls"])
    read: list[bytes | None] = []
    while len(read) < len(RECORDS):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == RECORDS


def test_kafka_python_and_aiokafka_write_and_read(secured: RunningNode, authority: Authority, alice: Path) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": client_context(authority, alice),
    }
    with contextlib.closing(kafka.KafkaProducer(**settings)) as producer:
        producer.send("both", b"from kafka-python", partition=0).get(timeout=30)

    async def read_and_answer() -> bytes:
        async with aiokafka.AIOKafkaConsumer("both", auto_offset_reset="earliest", **settings) as consumer:
            return (await asyncio.wait_for(consumer.getone(), 30)).value

    assert asyncio.run(read_and_answer()) == b"from kafka-python"


def test_a_plain_client_and_one_without_a_certificate_hear_nothing(secured: RunningNode, authority: Authority) -> None:
    address = (secured.host, secured.port)
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    with pytest.raises(NoAnswer):
        ask(address, request)
    with pytest.raises(NoAnswer):
        ask(address, request, tls=client_context(authority, None))
    with pytest.raises(NoAnswer), contextlib.closing(socket.create_connection(address)):
        ask(address, request, tls=ssl.create_default_context())


def test_a_certificate_does_not_make_a_client_a_node(secured: RunningNode, authority: Authority, alice: Path) -> None:
    """F64: it says that it is node 2, and asks for the votes."""
    partition = PartitionData(
        partition_index=0,
        replica_epoch=99,
        replica_id=2,
        replica_directory_id=None,
        voter_directory_id=None,
        last_offset_epoch=99,
        last_offset=10**6,
        pre_vote=False,
    )
    vote = VoteRequest(
        cluster_id=None,
        voter_id=1,
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(partition,)),),
    )
    address = (secured.host, secured.port)
    answer = ask(address, vote, client_id=b"node-2", tls=client_context(authority, alice))
    assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    as_node = ask(address, vote, client_id=b"node-2", tls=client_context(authority, authority.key_store("node")))
    assert as_node.error_code != Code.CLUSTER_AUTHORIZATION_FAILED
