"""Kafka's own command-line tools against the node under test."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients.behaviours import member_of
from tests.clients.kafka_tools import Tool, rows
from tests.clients.librdkafka import Librdkafka
from tests.clients.support import WAIT_SECONDS, Client, Record, needs, read
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, end_transaction, open_log, put_in_transaction

needs("kafka tools")

MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def tool(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(bootstrap, tmp_path_factory.mktemp("archive"))


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    """To prepare what a tool is to see."""
    library = Librdkafka(bootstrap)
    yield library
    library.close()


def test_kafka_topics_creates_lists_describes_alters_and_deletes(tool: Tool, name: str) -> None:
    create = ["--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=100000"]
    assert f"Created topic {name}." in tool("kafka-topics", *create)
    assert name in tool("kafka-topics", "--list").splitlines()
    tool("kafka-topics", "--alter", "--topic", name, "--partitions", "3")
    described = tool("kafka-topics", "--describe", "--topic", name)
    assert "PartitionCount: 3\tReplicationFactor: 1" in described
    assert "retention.ms=100000" in described
    assert len(re.findall(r"Partition: \d\tLeader: (\d+)\tReplicas: \1\tIsr: \1", described)) == 3
    with pytest.raises(RuntimeError, match="already exists"):
        tool("kafka-topics", *create)
    assert name not in tool("kafka-topics", "--describe", "--under-replicated-partitions")
    tool("kafka-topics", "--delete", "--topic", name)
    assert name not in tool("kafka-topics", "--list").splitlines()
    with pytest.raises(RuntimeError, match="does not exist"):
        tool("kafka-topics", "--describe", "--topic", name)


def test_the_console_producer_and_consumer_pass_keys_headers_and_nulls(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    reader = ["parse.headers=true", "parse.key=true", "null.marker=NULL"]
    lines = "a:1,b:2\tkey\tvalue\na:3\tdeleted\tNULL\na:4\tNULL\tno key\n"
    options = [option for one in reader for option in ("--reader-property", one)]
    tool("kafka-console-producer", "--topic", topic, *options, stdin=lines)
    printed = ["print.headers=true", "print.key=true", "null.literal=NULL"]
    options = [option for one in printed for option in ("--formatter-property", one)]
    consumed = tool("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3", *options)
    assert sorted(consumed.splitlines()) == sorted(lines.splitlines())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_shows_lag_resets_offsets_and_deletes(
    tool: Tool, client: Client, make_topic: MakeTopic, protocol: str
) -> None:
    topic = make_topic(partitions=1)
    client.produce(topic, [Record(b"%d" % number) for number in range(10)])
    console = ["--topic", topic, "--group", topic, "--from-beginning"]
    protocol_option = ["--command-property", f"group.protocol={protocol}"]
    tool("kafka-console-consumer", *console, *protocol_option, "--max-messages", "4")

    def described() -> tuple[str, str, str]:
        [row] = rows(tool("kafka-consumer-groups", "--describe", "--group", topic))
        return row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]

    def reset(*where: str) -> None:
        execute = ["--reset-offsets", "--group", topic, "--topic", topic, "--execute", *where]
        tool("kafka-consumer-groups", *execute)

    assert described() == ("4", "10", "6")
    assert topic in tool("kafka-consumer-groups", "--list").splitlines()
    reset("--to-offset", "7")
    assert described() == ("7", "10", "3")
    reset("--to-earliest")
    assert described() == ("0", "10", "10")
    consumed = tool("kafka-console-consumer", *console, *protocol_option, "--max-messages", "10")
    assert consumed.splitlines() == [str(number) for number in range(10)]
    tool("kafka-consumer-groups", "--delete", "--group", topic)
    assert topic not in tool("kafka-consumer-groups", "--list").splitlines()


def test_kafka_consumer_groups_shows_members_and_state(tool: Tool, client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    client.produce(topic, [Record(b"x")])
    read(client.consumer(topic, member_of(topic)), 1)
    [member] = rows(tool("kafka-consumer-groups", "--describe", "--group", topic, "--members"))
    assert member["#PARTITIONS"] == "2"
    state = tool("kafka-consumer-groups", "--describe", "--group", topic, "--state")
    assert re.search(rf"{topic} .*\srange\s+Stable\s+1", state)
    assert re.search(rf"{topic}\s+Classic\s+consumer", tool("kafka-groups", "--list"))
    assert "GroupNotEmptyException" in tool("kafka-consumer-groups", "--delete", "--group", topic)


def test_kafka_configs_describes_and_alters_topics(tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic()
    alter = ["--alter", "--topic", topic]
    tool("kafka-configs", *alter, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    described = tool("kafka-configs", "--describe", "--topic", topic)
    assert "retention.ms=5000" in described
    assert "cleanup.policy=compact,delete" in described
    tool("kafka-configs", *alter, "--delete-config", "retention.ms")
    assert "retention.ms=5000" not in tool("kafka-configs", "--describe", "--topic", topic)
    everything = tool("kafka-configs", "--describe", "--topic", topic, "--all")
    assert "max.message.bytes=1048588 sensitive=false" in everything
    with pytest.raises(RuntimeError, match="InvalidConfigurationException"):
        tool("kafka-configs", *alter, "--add-config", "retention.ms=soon")


def test_kafka_configs_takes_the_settings_of_tiers_and_levels(tool: Tool, make_topic: MakeTopic) -> None:
    # As MirrorMaker sends them along: one that is unknown would cost the topic all its settings.
    topic = make_topic()
    defaults = "compression.gzip.level=-1,compression.lz4.level=9,compression.zstd.level=3,local.retention.ms=-2"
    tool("kafka-configs", "--alter", "--topic", topic, "--add-config", f"{defaults},remote.storage.enable=false")
    described = tool("kafka-configs", "--describe", "--topic", topic)
    assert all(f"{each} sensitive=false" in described for each in defaults.split(","))
    with pytest.raises(RuntimeError, match="tiered storage is not there"):
        tool("kafka-configs", "--alter", "--topic", topic, "--add-config", "remote.storage.enable=true")


def test_kafka_acls_is_told_that_there_is_no_authorizer(tool: Tool) -> None:
    with pytest.raises(RuntimeError, match="SecurityDisabledException: No Authorizer is configured"):
        tool("kafka-acls", "--list")


def test_kafka_configs_describes_the_broker(tool: Tool, bootstrap: str) -> None:
    versions = tool("kafka-broker-api-versions")
    [(address, node_id)] = re.findall(r"^(\S+) \(id: (\d+)", versions, re.MULTILINE)
    assert address == bootstrap
    described = tool("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", node_id, "--all")
    assert "auto.create.topics.enable=true" in described


def test_kafka_broker_api_versions_finds_what_clients_need(tool: Tool) -> None:
    usable = dict(re.findall(r"(\w+)\(\d+\): .*\[usable: (\d+)\]", tool("kafka-broker-api-versions")))
    for api in ("Produce", "Fetch", "Metadata", "JoinGroup", "InitProducerId", "ConsumerGroupHeartbeat"):
        assert api in usable, f"{api} is not usable by the tools"


def test_kafka_get_offsets_and_delete_records(
    tool: Tool, client: Client, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2, **{"retention.ms": "-1"})  # its records are of 1970
    client.produce(topic, [Record(b"x", partition=number % 2, timestamp_ms=1_000_000 + number) for number in range(20)])

    def offsets(when: str) -> list[str]:
        return tool("kafka-get-offsets", "--topic", topic, "--time", when).split()

    assert offsets("latest") == [f"{topic}:0:10", f"{topic}:1:10"]
    assert offsets("max-timestamp") == [f"{topic}:0:9", f"{topic}:1:9"]
    assert offsets("1000010") == [f"{topic}:0:5", f"{topic}:1:5"]
    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    assert "low_watermark: 4" in tool("kafka-delete-records", "--offset-json-file", str(wanted))
    assert offsets("earliest") == [f"{topic}:0:4", f"{topic}:1:0"]


def test_the_perf_tests_send_and_receive_every_record(bootstrap: str, tool: Tool, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    size = ["--num-records", "20000", "--record-size", "100", "--throughput", "-1"]
    server = ["--command-property", f"bootstrap.servers={bootstrap}"]
    sent = tool.alone("kafka-producer-perf-test", "--topic", topic, *size, *server)
    assert "20000 records sent" in sent
    received = tool("kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000", "--timeout", "20000")
    assert received.splitlines()[-1].split(", ")[4] == "20000"


def log_folder(tool: Tool, topic: str) -> Path:
    """Where the log of partition 0 lies, and that its size is what kafka-log-dirs says."""
    [line] = [one for one in tool("kafka-log-dirs", "--describe", "--topic-list", topic).splitlines() if one[:1] == "{"]
    [broker] = json.loads(line)["brokers"]
    [found] = [log_dir for log_dir in broker["logDirs"] if log_dir["partitions"]]
    folder = Path(found["logDir"]) / f"{topic}-0"
    assert found["partitions"][0]["size"] == sum(log.stat().st_size for log in folder.glob("*.log"))
    return folder


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_kafka_dump_log_reads_the_records(tool: Tool, client: Client, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    records = [Record(b"value %d" % number, b"key %d" % number, (("h", b"x"),)) for number in range(10)]
    client.produce(topic, records, {"compression.type": codec, "enable.idempotence": True})
    log = log_folder(tool, topic) / "00000000000000000000.log"
    dumped = tool.alone("kafka-dump-log", "--files", str(log), "--print-data-log")
    assert re.findall(r"payload: (.*)", dumped) == [f"value {number}" for number in range(10)]
    assert "isvalid: true" in dumped
    assert "isvalid: false" not in dumped


def test_kafka_dump_log_finds_the_indexes_of_a_rolled_segment_right(
    tool: Tool, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"segment.bytes": str(1024 * 1024)})
    for _ in range(8):
        client.produce(topic, [Record(bytes(20_000)) for _ in range(10)])
    folder = log_folder(tool, topic)
    assert len(list(folder.glob("*.log"))) > 1, "the log has rolled"
    indexes = [str(folder / f"00000000000000000000{suffix}") for suffix in (".index", ".timeindex")]
    # It compares every entry with the log, and prints what does not fit.
    dumped = tool.alone("kafka-dump-log", "--files", ",".join(indexes))
    assert len(re.findall(r"^offset: \d+ position: \d+", dumped, re.MULTILINE)) > 1
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", dumped, re.MULTILINE)) > 1
    assert "mismatch" not in dumped.lower()
    assert "Found out of order" not in dumped
    sane = tool.alone("kafka-dump-log", "--files", ",".join(indexes), "--index-sanity-check")
    assert sane.count("passed sanity check") == 2


def test_kafka_dump_log_reads_markers_aborted_transactions_and_open_ones(tool: Tool, tmp_path: Path) -> None:
    # Written by the log alone: clients cannot have transactions yet.
    files = MemoryFiles()
    log = open_log(files)
    for producer_id, is_commit in ((7, True), (8, False)):
        put_in_transaction(log, producer_id)
        end_transaction(log, producer_id, is_commit=is_commit, coordinator_epoch=3)
    put_in_transaction(log, 9)
    log.close()
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for name in files.names(DIRECTORY):
        (folder / name).write_bytes(files.read_all(f"{DIRECTORY}/{name}"))
    stem = str(folder / "00000000000000000000")

    batches = tool.alone("kafka-dump-log", "--files", f"{stem}.log", "--print-data-log")
    aborted = tool.alone("kafka-dump-log", "--files", f"{stem}.txnindex")
    producers = tool.alone("kafka-dump-log", "--files", str(folder / "00000000000000000005.snapshot"))

    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", batches) == [("COMMIT", "3"), ("ABORT", "3")]
    assert "isvalid: false" not in batches
    assert "producerId: 8 firstOffset: 2 lastOffset: 3 lastStableOffset: 4" in aborted
    assert re.findall(r"producerId: (\d+) .*coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+)", producers) == [
        ("7", "3", "OptionalLong.empty"),
        ("8", "3", "OptionalLong.empty"),
        ("9", "-1", "OptionalLong[4]"),
    ]


def test_kafka_dump_log_reads_the_indexes_of_the_active_segment(
    tool: Tool, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for number in range(20):
        client.produce(topic, [Record(bytes(5_000), b"%d" % number)])
    folder = log_folder(tool, topic)
    indexes = [folder / f"00000000000000000000{suffix}" for suffix in (".index", ".timeindex")]
    deadline = time.monotonic() + 60  # they are put on disk now and then
    while not all(index.exists() and index.stat().st_size for index in indexes) and time.monotonic() < deadline:
        time.sleep(0.2)
    dumped = tool.alone("kafka-dump-log", "--files", ",".join(map(str, indexes)))
    assert len(re.findall(r"^offset: \d+ position: \d+", dumped, re.MULTILINE)) > 1
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", dumped, re.MULTILINE)) > 1
    assert "mismatch" not in dumped.lower()
    assert "Found out of order" not in dumped
    sane = tool.alone("kafka-dump-log", "--files", ",".join(map(str, indexes)), "--index-sanity-check")
    assert sane.count("passed sanity check") == 2


def test_kafka_transactions_describes_the_producers_of_a_partition(
    tool: Tool, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.produce(topic, [Record(b"x") for _ in range(5)], {"enable.idempotence": True})
    [producer] = rows(tool("kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0"))
    assert producer["LastSequence"] == "4"


def test_kafka_transactions_shows_a_transaction_and_ends_it(
    bootstrap: str, tool: Tool, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(WAIT_SECONDS)

    listed = {row["TransactionalId"]: row["TransactionState"] for row in rows(tool("kafka-transactions", "list"))}
    assert listed[name] == "Ongoing"
    [described] = rows(tool("kafka-transactions", "describe", "--transactional-id", name))
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", f"{topic}-0")

    tool("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    of_partition = ["describe-producers", "--topic", topic, "--partition", "0"]
    [ended] = rows(tool("kafka-transactions", *of_partition))
    assert ended["CurrentTransactionStartOffset"] == "None"
    producer.purge()
