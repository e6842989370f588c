"""The HTTP port of a real node, and what it says after real clients have been there."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import struct
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from chronik import __version__
from chronik.local_cluster.authority import CertificateAuthority, write_secret
from chronik.testing import RunningNode, node

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def running() -> Iterator[RunningNode]:
    with node() as started:
        yield started


@pytest.fixture
def own_node() -> Iterator[RunningNode]:
    """For tests that break it."""
    with node() as started:
        yield started


@pytest.fixture
def topic(running: RunningNode) -> str:
    """A new topic of 3 partitions."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(name, num_partitions=3)])[name].result(TIMEOUT_S)
    return name


def get(running: RunningNode, path: str, method: str = "GET") -> tuple[int, bytes]:
    request = urllib.request.Request(f"{running.http_url}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


class Metrics:
    """One scrape: the value of a metric by name and labels; None when there is no such series."""

    def __init__(self, running: RunningNode) -> None:
        status, text = get(running, "/metrics")
        assert status == 200
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                self._values[sample.name, frozenset(sample.labels.items())] = sample.value

    def __call__(self, name: str, **labels: object) -> float | None:
        return self._values.get((name, frozenset((key, str(value)) for key, value in labels.items())))


def produce(running: RunningNode, topic: str, counts: dict[int, int], **settings: Any) -> None:
    """So many records to each partition, all acknowledged."""
    producer = Producer({"bootstrap.servers": running.bootstrap, **settings})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, value=f"value {number}".encode(), partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def readable(running: RunningNode, topic: str, partition: int) -> int:
    """How many records a consumer gets before it is told that this is the end."""
    consumer = Consumer(
        {"bootstrap.servers": running.bootstrap, "group.id": "unused", "enable.partition.eof": True,
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    count = 0
    while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
        count += 1
    assert message is not None, "the end of the partition never came"
    consumer.close()
    return count


def test_a_fresh_node_is_healthy_and_ready(running: RunningNode) -> None:
    status, body = get(running, "/health")

    assert status == 200
    assert json.loads(body)["status"] == "ok"
    assert json.loads(body)["version"] == __version__
    assert get(running, "/ready")[0] == 200


def test_an_unknown_path_lists_the_known_ones(running: RunningNode) -> None:
    status, body = get(running, "/")

    assert status == 404
    assert json.loads(body)["paths"] == ["/health", "/metrics", "/partitions", "/ready", "/stalls", "/trace"]
    assert get(running, "/metrics", "POST")[0] == 405
    assert get(running, "/metrics", "HEAD") == (200, b"")


def test_what_the_node_sees_can_be_had_as_json(running: RunningNode, topic: str) -> None:
    produce(running, topic, {0: 2, 2: 3})

    seen = json.loads(get(running, f"/partitions?topic={topic}")[1])
    traced = json.loads(get(running, "/trace?last=1")[1])
    stalls = json.loads(get(running, "/stalls")[1])

    assert sum(each["watermark"] for each in seen["partitions"]) == 5
    assert all(each["next_offset"] == each["watermark"] for each in seen["partitions"])
    assert (traced["events"], traced["traces"]["is_all"]) == ([], False)
    assert (stalls["is_traced"], stalls["stalls"]) == (False, [])
    assert get(running, "/trace?cursor=x")[0] == 400


def test_the_high_watermark_is_what_a_consumer_can_read(running: RunningNode, topic: str) -> None:
    produce(running, topic, {0: 100, 2: 7}, acks="all")

    metrics = Metrics(running)

    for partition, count in ((0, 100), (2, 7)):
        labels = {"topic": topic, "partition": partition}
        assert readable(running, topic, partition) == count
        assert metrics("chronik_partition_high_watermark", **labels) == count
        assert metrics("chronik_partition_last_stable_offset", **labels) == count
        assert metrics("chronik_partition_next_offset", **labels) == count
        assert metrics("chronik_partition_log_start_offset", **labels) == 0
        assert metrics("chronik_partition_in_sync_replicas", **labels) == 1
        assert metrics("chronik_partition_offline", **labels) == 0


def test_a_partition_that_was_never_written_to_has_no_series(running: RunningNode, topic: str) -> None:
    produce(running, topic, {0: 1})

    metrics = Metrics(running)

    assert metrics("chronik_partition_next_offset", topic=topic, partition=0) == 1
    assert metrics("chronik_partition_next_offset", topic=topic, partition=1) is None


def test_the_size_of_a_partition_is_that_of_its_segments_on_disk(running: RunningNode, topic: str) -> None:
    produce(running, topic, {1: 500})

    size = Metrics(running)("chronik_partition_size_bytes", topic=topic, partition=1)

    segments = Path(running.data_dir, f"{topic}-1").glob("*.log")
    assert size == sum(segment.stat().st_size for segment in segments) > 0


def test_what_was_produced_and_fetched_is_counted(running: RunningNode, topic: str) -> None:
    before = Metrics(running)

    produce(running, topic, {0: 50})
    readable(running, topic, 0)

    after = Metrics(running)

    def grown(name: str, **labels: object) -> float:
        return (after(name, **labels) or 0) - (before(name, **labels) or 0)

    size = after("chronik_partition_size_bytes", topic=topic, partition=0)
    assert grown("chronik_requests_total", api="produce") >= 1
    assert grown("chronik_requests_total", api="fetch") >= 1
    assert grown("chronik_appended_batches_total") >= 1
    assert grown("chronik_appended_bytes_total") >= (size or 0) > 0  # the offsets topic may have been made meanwhile
    assert grown("chronik_fetched_bytes_total") >= (size or 0)
    assert grown("chronik_connections_accepted_total") >= 2
    assert grown("chronik_group_commit_seconds_count") >= 1
    assert grown("chronik_faults_total") == 0


def test_a_refusal_is_counted_with_its_reason(running: RunningNode, topic: str) -> None:
    labels = {"api": "produce", "code": "MESSAGE_TOO_LARGE"}
    before = Metrics(running)("chronik_refusals_total", **labels) or 0
    producer = Producer({"bootstrap.servers": running.bootstrap, "message.max.bytes": 10_000_000})
    told: list[Any] = []

    producer.produce(topic, value=bytes(2_000_000), on_delivery=lambda error, _: told.append(error))
    producer.flush(TIMEOUT_S)

    assert told[0] is not None
    assert Metrics(running)("chronik_refusals_total", **labels) == before + 1


def test_what_is_no_kafka_request_is_counted(running: RunningNode) -> None:
    before = Metrics(running)("chronik_connections_malformed_total") or 0

    with socket.create_connection((running.host, running.port), timeout=TIMEOUT_S) as client:
        client.sendall(struct.pack(">i", -5))
        assert client.recv(100) == b""

    assert Metrics(running)("chronik_connections_malformed_total") == before + 1


def test_groups_and_producers_are_counted(running: RunningNode, topic: str) -> None:
    produce(running, topic, {0: 3}, **{"enable.idempotence": True})
    consumer = Consumer(
        {"bootstrap.servers": running.bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is None

    metrics = Metrics(running)
    consumer.close()

    assert metrics("chronik_groups", type="classic", state="Stable") == 1
    assert (metrics("chronik_producer_ids") or 0) >= 1
    assert (metrics("chronik_connections") or 0) >= 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python's own, when it is imported
def test_a_consumer_at_the_end_is_a_waiting_fetch_with_a_session(running: RunningNode, topic: str) -> None:
    from kafka import KafkaConsumer  # of the clients for Python the one that has fetch sessions
    from kafka import TopicPartition as Partition

    produce(running, topic, {0: 1})
    before = Metrics(running)("chronik_fetch_sessions") or 0
    consumer = KafkaConsumer(bootstrap_servers=running.bootstrap, fetch_max_wait_ms=5_000, auto_offset_reset="earliest")
    consumer.assign([Partition(topic, 0)])
    consumer.seek_to_beginning()

    for _ in range(100):  # the first poll brings the record, one of the next leaves a fetch waiting
        consumer.poll(timeout_ms=100)
        metrics = Metrics(running)
        if metrics("chronik_waiting_fetches") and metrics("chronik_fetch_sessions") != before:
            break
    consumer.close()

    assert (metrics("chronik_waiting_fetches") or 0) >= 1
    assert metrics("chronik_waiting_producers") == 0
    assert metrics("chronik_fetch_sessions") == before + 1


def test_the_process_and_the_build_are_there(running: RunningNode) -> None:
    metrics = Metrics(running)

    assert metrics("chronik_build_info", version=__version__) == 1
    assert metrics("chronik_ready") == 1
    assert (metrics("process_resident_memory_bytes") or 0) > 1_000_000
    assert (metrics("process_open_fds") or 0) > 3


def test_a_partition_found_damaged_makes_health_fail_and_the_rest_goes_on(own_node: RunningNode) -> None:
    running = own_node
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for future in admin.create_topics([NewTopic("good", 1), NewTopic("bad", 1)]).values():
        future.result(TIMEOUT_S)
    produce(running, "bad", {0: 10})
    produce(running, "good", {0: 10})
    running.stop()
    segment = Path(running.data_dir, "bad-0", f"{0:020}.log")
    content = bytearray(segment.read_bytes())
    content[80] ^= 0xFF
    segment.write_bytes(content)
    running.start()

    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition("bad", 0, 0)])
    for _ in range(300):
        message = consumer.poll(0.1)
        assert message is None or message.error() is not None, "damaged bytes were served"
        if get(running, "/health")[0] != 200:
            break
    consumer.close()

    status, body = get(running, "/health")
    metrics = Metrics(running)
    assert status == 503
    assert [problem.partition(" ")[0] for problem in json.loads(body)["problems"]] == ["bad-0"]
    assert get(running, "/ready")[0] == 200
    assert metrics("chronik_partitions_offline") == 1
    assert metrics("chronik_partition_offline", topic="bad", partition=0) == 1
    assert metrics("chronik_partition_next_offset", topic="bad", partition=0) is None
    assert metrics("chronik_partition_next_offset", topic="good", partition=0) == 10
    assert readable(running, "good", 0) == 10


def test_a_port_with_tls_and_a_login_shows_only_what_is_open_to_others(tmp_path: Path) -> None:
    authority = CertificateAuthority.new("http")
    write_secret(tmp_path / "http.pem", authority.key_store("node"))
    write_secret(tmp_path / "token", "a-token-for-the-http-port\n")
    settings = {
        "http.ssl.keystore.location": str(tmp_path / "http.pem"),
        "http.token.file": str(tmp_path / "token"),
        "http.basic.auth.enable": "true",
        "http.open.paths": "/metrics,/health",
    }
    trusted = ssl.create_default_context(cadata=authority.certificate_pem().decode())

    def status(started: RunningNode, path: str, authorization: str | None = None) -> int:
        headers = {} if authorization is None else {"Authorization": authorization}
        request = urllib.request.Request(f"{started.http_url}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trusted) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

    with node(settings, secure=True) as started:
        assert started.http_url is not None
        assert started.http_url.startswith("https://")
        assert started.secured is not None
        password = started.secured.password_file.read_text().strip()
        login = base64.b64encode(f"admin:{password}".encode()).decode()
        assert (status(started, "/metrics"), status(started, "/health")) == (200, 200)
        assert status(started, "/partitions") == 401
        assert status(started, "/partitions", "Bearer wrong-token-for-the-port") == 401
        assert status(started, "/partitions", "Bearer a-token-for-the-http-port") == 200
        assert status(started, "/partitions", f"Basic {login}") == 200
        log = Path(started.log_path).read_text()
    assert not any(secret in log for secret in (password, login, "a-token-for-the-http-port"))
