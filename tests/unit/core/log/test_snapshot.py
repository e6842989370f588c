"""The producer snapshot: Kafka's bytes and the earlier batches behind them; nothing else is believed."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.log import snapshot
from chronik.core.log.producers import Producers, ProducerState, WrittenBatch


def producer_of(producer_id: int = 7) -> ProducerState:
    producer = ProducerState(producer_id, epoch=3)
    producer.last_timestamp = 1234
    producer.batches.append(WrittenBatch(10, 14, 100, 104, 1234))
    return producer


def test_the_bytes_are_kafkas() -> None:
    content = snapshot.encode(Producers([producer_of()]))
    assert struct.unpack_from(">h", content) == (1,)
    assert struct.unpack_from(">iqhiqiqiq", content, 6) == (1, 7, 3, 14, 104, 4, 1234, -1, -1)


def test_one_of_kafkas_tells_the_last_batch_only() -> None:
    body = struct.pack(">iqhiqiqiq", 1, 7, 3, 14, 104, 4, 1234, -1, -1)
    again = snapshot.decode(struct.pack(">hI", 1, crc32c(body)) + body)
    assert again is not None
    assert list(again.states()[0].batches) == [WrittenBatch(10, 14, 100, 104, 1234)]
    assert not again.states()[0].is_recalled
    assert_same(again)


def assert_same(producers: Producers) -> None:
    again = snapshot.decode(snapshot.encode(producers))
    assert again is not None
    for one, other in zip(producers.states(), again.states(), strict=True):
        assert (one.batches, one.is_recalled) == (other.batches, other.is_recalled)


def test_it_brings_back_the_last_batches_of_each_producer() -> None:
    first = producer_of(1)
    first.batches.appendleft(WrittenBatch(5, 9, 90, 94, 1000))
    again = snapshot.decode(snapshot.encode(Producers([producer_of(2), first])))
    assert again is not None
    assert [producer.producer_id for producer in again.states()] == [1, 2]
    assert list(again.states()[0].batches) == [WrittenBatch(5, 9, 90, 94, 1000), WrittenBatch(10, 14, 100, 104, 1234)]
    assert list(again.states()[1].batches) == [WrittenBatch(10, 14, 100, 104, 1234)]
    assert all(producer.is_recalled for producer in again.states())
    assert (again.states()[0].epoch, again.states()[0].last_timestamp) == (3, 1234)


def test_a_sequence_that_wrapped_keeps_its_first_number() -> None:
    producer = ProducerState(1, 0)
    producer.batches.append(WrittenBatch(2**31 - 2, 1, 100, 103, 5))
    again = snapshot.decode(snapshot.encode(Producers([producer])))
    assert again is not None
    assert again.states()[0].batches[0].first_sequence == 2**31 - 2


def test_a_producer_without_batches_is_kept_as_such() -> None:
    again = snapshot.decode(snapshot.encode(Producers([ProducerState(1, 4)])))
    assert again is not None
    assert again.states()[0].epoch == 4
    assert not again.states()[0].batches


@given(st.data())
def test_every_flipped_bit_is_noticed(data: st.DataObject) -> None:
    content = bytearray(snapshot.encode(Producers([producer_of(1), producer_of(2)])))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    assert snapshot.decode(content) is None


def test_every_shorter_file_is_noticed() -> None:
    content = snapshot.encode(Producers([producer_of(1), producer_of(2)]))
    assert all(snapshot.decode(content[:size]) is None for size in range(len(content)))


def test_what_stands_behind_the_entries_is_the_earlier_batches_or_it_is_no_snapshot() -> None:
    content = snapshot.encode(Producers([producer_of()]))
    for body in (content[6:] + b"\0", content[6:-1] + b"\1"):
        assert snapshot.decode(struct.pack(">hI", 1, crc32c(body)) + body) is None


def test_offsets_are_read_off_the_names() -> None:
    names = ["00000000000000000012.snapshot", "00000000000000000003.snapshot", "x.snapshot", "00000000000000000003.log"]
    assert snapshot.offsets_of(names) == (3, 12)
