"""A batch as its topic's compression.type wants it."""

from __future__ import annotations

import random

import cramjam
import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, InvalidRecords, Refused
from chronik.core.log.recompression import AT_ONCE_BYTES, ready_to_append
from chronik.core.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    accept,
    read_header,
)
from chronik.core.records.payload import KeyValue, Record, assemble, build, pack, unpack, walk
from chronik.core.records.steps import Finished, Unfinished, Work, begin, finish
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of, contents, open_log, put

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
COMPACTED = ("compact",)


def compressed(batch: bytearray, codec: int) -> bytearray:
    """The same batch as a producer with this codec sends it."""
    header = read_header(batch)
    return assemble(pack(bytes(batch[HEADER_BYTES:]), codec), header._replace(attributes=header.attributes | codec))


def kept_of(batch: bytearray, config: TopicConfig) -> bytearray | memoryview:
    return finish(ready_to_append(batch, accept(batch), config, NOW_MS, checks_records=config.checks_each_record))


def refusal(batch: bytearray, config: TopicConfig) -> Refused:
    with pytest.raises(Refused) as refused:
        kept_of(batch, config)
    return refused.value


def without_packing(header: BatchHeader) -> BatchHeader:
    return header._replace(attributes=header.attributes & ~COMPRESSION_MASK, length=0, crc=0)


@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("codec", CODECS.values())
def test_every_codec_becomes_every_other_and_nothing_else_changes(codec: int, target: str) -> None:
    numbered = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 41}
    made = [Record(number, NOW_MS - number, b"key", b"value" * number, ()) for number in range(20)]
    batch = compressed(build(made, NOW_MS, attributes=TRANSACTIONAL_BIT, **numbered), codec)

    kept = kept_of(batch, TopicConfig(compression_type=target))

    header = accept(kept)  # which checks length and checksum
    assert header.compression == CODECS[target]
    assert without_packing(header) == without_packing(read_header(batch))
    assert list(walk(kept)) == list(walk(batch))


@pytest.mark.parametrize("target", ["producer", "zstd"])
def test_a_batch_that_has_the_codec_already_is_kept_byte_for_byte_whatever_its_level(target: str) -> None:
    batch = batch_of(100)
    batch = assemble(bytes(cramjam.zstd.compress(batch[HEADER_BYTES:], 19)), read_header(batch)._replace(attributes=4))
    assert kept_of(batch, TopicConfig(compression_type=target, compression_zstd_level=1)) is batch


def test_with_compression_type_producer_a_batch_is_not_even_looked_at() -> None:
    """With compression type producer and no other wish a batch is not even looked at."""
    assert TopicConfig().takes_batches_as_they_come
    assert not TopicConfig(compression_type="zstd").takes_batches_as_they_come
    assert not TopicConfig(compression_type="uncompressed").takes_batches_as_they_come
    assert not TopicConfig(cleanup_policy=COMPACTED).takes_batches_as_they_come


def words(size: int) -> bytes:
    dice = random.Random(7)
    text = b" ".join(
        dice.choice([b"chronik", b"record", b"batch", b"offset", b"%d" % dice.randrange(999)]) for _ in range(size)
    )
    return text[:size]


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -50, 1), ("zstd", 1, 19)])
def test_a_level_decides_over_the_size(codec: str, low: int, high: int) -> None:
    batch = batch_of(1, value=words(50_000))
    sizes = [
        len(kept_of(batch, TopicConfig(compression_type=codec, **{f"compression_{codec}_level": level})))  # type: ignore[arg-type]
        for level in (low, high)
    ]
    assert sizes[1] < sizes[0] * 0.97


@pytest.mark.parametrize(("codec", "levels"), [("gzip", (-1, 1, 9)), ("lz4", (1, 17)), ("zstd", (-131_072, 0, 22))])
def test_every_level_that_a_topic_takes_can_be_packed(codec: str, levels: tuple[int, ...]) -> None:
    batch = batch_of(3, value=words(2000))
    for level in levels:
        kept = kept_of(batch, TopicConfig(compression_type=codec, **{f"compression_{codec}_level": level}))  # type: ignore[arg-type]
        assert list(walk(kept)) == list(walk(batch))


def test_control_batches_stay_as_they_are() -> None:
    batch = batch_of(attributes=CONTROL_BIT)
    assert kept_of(batch, TopicConfig(compression_type="zstd")) is batch


def test_what_is_small_is_packed_at_once_and_what_is_large_is_work_for_a_thread() -> None:
    config = TopicConfig(compression_type="lz4")
    small, large = batch_of(1, value=b"v" * 1000), batch_of(1, value=bytes(AT_ONCE_BYTES * 2))
    bomb = compressed(large, 4)  # small as it comes

    def first_step(batch: bytearray) -> Finished[memoryview | bytearray] | Unfinished[memoryview | bytearray]:
        return begin(ready_to_append(batch, accept(batch), config, NOW_MS, checks_records=False))

    assert isinstance(first_step(small), Finished)
    for batch in (large, bomb):
        begun = first_step(batch)
        assert isinstance(begun, Unfinished)
        assert isinstance(begun.step, Work)
        assert list(walk(finish(begun.steps))) == list(walk(batch))


def test_a_high_level_of_zstd_is_work_for_a_thread_though_the_batch_is_small() -> None:
    batch, config = batch_of(1, value=b"v" * 2000), TopicConfig(compression_type="zstd", compression_zstd_level=22)
    assert isinstance(begin(ready_to_append(batch, accept(batch), config, NOW_MS, checks_records=False)), Unfinished)


def test_what_unpacks_to_more_than_any_batch_may_is_refused() -> None:
    batch = batch_of(1)
    bomb = assemble(bytes(cramjam.zstd.compress(bytes(129 * 1024 * 1024))), read_header(batch)._replace(attributes=4))
    refused = refusal(bomb, TopicConfig(compression_type="gzip"))
    assert (refused.code, "more than" in (refused.message or "")) == (Code.INVALID_RECORD, True)


def test_what_does_not_unpack_is_refused_and_so_is_a_count_that_cannot_be_true() -> None:
    header = read_header(batch_of(1))
    rubbish = assemble(b"rubbish that no codec wrote", header._replace(attributes=4))
    claims = assemble(pack(bytes(20), 4), header._replace(attributes=4, record_count=1000, last_offset_delta=999))
    for batch in (rubbish, claims):
        assert refusal(batch, TopicConfig(compression_type="gzip")).code == Code.INVALID_RECORD


def test_what_the_header_forbids_is_refused_before_it_is_unpacked() -> None:
    rubbish = assemble(
        b"rubbish that no codec wrote", read_header(batch_of(1, time_ms=NOW_MS * 2))._replace(attributes=4)
    )
    assert refusal(rubbish, TopicConfig(compression_type="gzip")).code == Code.INVALID_TIMESTAMP
    short = TopicConfig(compression_type="gzip", max_message_bytes=len(rubbish) - 1)
    assert refusal(rubbish, short).code == Code.MESSAGE_TOO_LARGE


def test_a_batch_that_is_too_large_once_it_is_packed_anew_is_refused_as_in_kafka() -> None:
    """Kafka looks at the size as it came, and again at what it made of it."""
    batch = compressed(batch_of(1, value=bytes(100_000)), 4)
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=50_000)
    log = open_log(MemoryFiles(), config=config)
    with pytest.raises(Refused) as refused:
        put(log, bytearray(kept_of(batch, config)))
    assert (refused.value.code, log.end_offset) == (Code.MESSAGE_TOO_LARGE, 0)


def test_the_records_of_a_compacted_topic_are_looked_at_first() -> None:
    config = TopicConfig(cleanup_policy=COMPACTED, compression_type="zstd")
    refused = refusal(build([KeyValue(b"k", b"v"), KeyValue(None, b"v")], NOW_MS), config)
    assert isinstance(refused, InvalidRecords)
    assert [index for index, _ in refused.record_errors] == [1]
    assert read_header(kept_of(build([KeyValue(b"k", b"v")], NOW_MS), config)).compression == CODECS["zstd"]


def test_where_the_log_sets_the_time_the_checksum_holds_for_what_is_kept() -> None:
    config = TopicConfig(compression_type="gzip", message_timestamp_type="LogAppendTime")
    log = open_log(MemoryFiles(), config=config)
    put(log, bytearray(kept_of(batch_of(3, time_ms=5), config)))
    (first, *_) = stored = list(walk(contents(log)))
    assert (len(stored), first.timestamp, read_header(contents(log)).compression) == (3, NOW_MS, CODECS["gzip"])


def test_the_log_knows_a_retry_that_comes_in_another_codec() -> None:
    config = TopicConfig(compression_type="lz4")
    log = open_log(MemoryFiles(), config=config)
    batch = batch_of(3, producer_id=5, sequence=0)
    taken = [put(log, bytearray(kept_of(sent, config))) for sent in (batch, batch, compressed(batch, 4))]
    assert [(one.base_offset, one.is_new) for one in taken] == [(0, True), (0, False), (0, False)]
    assert unpack(contents(log), read_header(contents(log))) == batch[HEADER_BYTES:]
