"""`compression.type` of a topic: what the leader makes of batches that came in another codec, as kafka-dump-log and
the clients read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.clients.kafka_tools import Tool
from tests.clients.librdkafka import Librdkafka
from tests.clients.support import CODECS, Client, MessageTooLarge, Record, needs, read
from tests.clients.test_kafka_tools import log_folder

needs("kafka tools")

MakeTopic = Callable[..., str]
SEGMENT = "00000000000000000000.log"
TARGETS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def tool(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(bootstrap, tmp_path_factory.mktemp("archive"))


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    library = Librdkafka(bootstrap)
    yield library
    library.close()


def dumped_batches(tool: Tool, topic: str) -> list[tuple[str, int, int, bool]]:
    """Codec, base sequence, count and validity of each batch, as Kafka's tool reads the segment."""
    dumped = tool.alone("kafka-dump-log", "--files", str(log_folder(tool, topic) / SEGMENT), "--print-data-log")
    found = re.findall(r"count: (\d+) baseSequence: (-?\d+) .* compresscodec: (\w+) .* isvalid: (\w+)", dumped)
    return [(codec, int(sequence), int(count), valid == "true") for count, sequence, codec, valid in found]


@pytest.mark.parametrize("target", TARGETS)
def test_batches_of_any_codec_are_stored_in_the_topics(
    tool: Tool, client: Client, make_topic: MakeTopic, target: str
) -> None:
    topic = make_topic(**{"compression.type": target})
    sent: list[Record] = []
    for number, codec in enumerate(CODECS):  # small and large batches: the large are packed off the event loop
        size = 20 if number % 2 else 2000
        records = [Record(b"%s %d " % (codec.encode(), n) * size, b"key %d" % n, (("h", b"x"),)) for n in range(20)]
        client.produce(topic, records, {"compression.type": codec, "enable.idempotence": True})
        sent += records

    batches = dumped_batches(tool, topic)
    assert {codec for codec, *_ in batches} == {"none" if target == "uncompressed" else target}
    assert all(is_valid for *_, is_valid in batches)
    assert sum(count for _, _, count, _ in batches) == len(sent)
    assert [sequence for _, sequence, _, _ in batches if sequence == 0] == [0] * len(CODECS), "each producer's own"

    consumed = read(client.consumer(topic, {"auto.offset.reset": "earliest"}, [0]), len(sent))
    assert [(one.offset, one.key, one.value, tuple(one.headers)) for one in consumed] == [
        (offset, one.key, one.value, tuple(one.headers)) for offset, one in enumerate(sent)
    ]
    java = tool(
        "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", str(len(sent)),
        "--formatter-property", "print.key=true",
    )  # fmt: skip
    assert java.splitlines() == [f"{(one.key or b'').decode()}\t{(one.value or b'').decode()}" for one in sent]


def test_a_batch_that_has_the_topics_codec_is_stored_as_it_came(
    tool: Tool, client: Client, make_topic: MakeTopic
) -> None:
    kept = {"retention.ms": "-1"}  # the records are of 2023
    as_it_came = make_topic(**kept)
    same = make_topic(**kept, **{"compression.type": "zstd", "compression.zstd.level": "19"})
    records = [Record(b"%d" % (number * 7919) * 40, timestamp_ms=1_700_000_000_000 + number) for number in range(50)]
    for topic in (as_it_came, same):
        client.produce(topic, records, {"compression.type": "zstd"})
    sizes = [(log_folder(tool, topic) / SEGMENT).stat().st_size for topic in (as_it_came, same)]
    assert sizes[0] == sizes[1]


def test_a_level_is_honoured(tool: Tool, client: Client, make_topic: MakeTopic) -> None:
    records = [Record(b"".join(b"%d " % ((n * number * 7919) % 1009) for n in range(400))) for number in range(50)]
    sizes = []
    for level in ("1", "9"):
        topic = make_topic(**{"compression.type": "gzip", "compression.gzip.level": level})
        client.produce(topic, records, {"compression.type": "none"})
        sizes.append((log_folder(tool, topic) / SEGMENT).stat().st_size)
    assert sizes[1] < sizes[0]


def test_a_batch_that_is_too_large_unpacked_is_refused(client: Client, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"compression.type": "uncompressed", "max.message.bytes": "20000"})
    with pytest.raises(MessageTooLarge):
        client.produce(topic, [Record(bytes(100_000))], {"compression.type": "zstd"})


def test_the_codec_follows_when_the_setting_is_altered_and_removed(
    tool: Tool, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    altered = ["--alter", "--entity-type", "topics", "--entity-name", topic]
    client.produce(topic, [Record(b"one")])
    tool("kafka-configs", *altered, "--add-config", "compression.type=lz4")
    client.produce(topic, [Record(b"two")])
    tool("kafka-configs", *altered, "--delete-config", "compression.type")
    client.produce(topic, [Record(b"three")])
    assert [codec for codec, *_ in dumped_batches(tool, topic)] == ["none", "lz4", "none"]
