"""What a topic's settings refuse."""

from __future__ import annotations

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.admission import admit, check_keys
from chronik.core.records.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, accept
from chronik.core.records.payload import KeyValue, assemble, build, pack, write_record
from chronik.core.records.steps import RECORDS_A_STEP, Work, finish
from tests.unit.core.log.logs import NOW_MS, batch_of, header_of

ZSTD = 4


def refusal(batch: bytearray, config: TopicConfig | None = None) -> Code:
    with pytest.raises(Refused) as refused:
        admit(accept(batch), config or TopicConfig(), NOW_MS)
    return refused.value.code


def test_a_plain_batch_is_admitted() -> None:
    batch = batch_of(3)
    admit(accept(batch), TopicConfig(), NOW_MS)


def test_a_batch_of_exactly_the_limit_is_admitted_and_one_byte_more_is_too_large() -> None:
    batch = batch_of(1, value=b"v" * 1000)
    admit(accept(batch), TopicConfig(max_message_bytes=len(batch)), NOW_MS)
    assert refusal(batch, TopicConfig(max_message_bytes=len(batch) - 1)) == Code.MESSAGE_TOO_LARGE


def test_control_batches_are_for_brokers() -> None:
    assert refusal(batch_of(attributes=CONTROL_BIT)) == Code.INVALID_RECORD


def test_the_time_of_appending_is_for_brokers() -> None:
    assert refusal(batch_of(attributes=TIMESTAMP_TYPE_BIT)) == Code.INVALID_TIMESTAMP


def test_a_producer_id_needs_epoch_and_sequence() -> None:
    assert refusal(batch_of(producer_id=1, sequence=-1)) == Code.INVALID_RECORD


def test_a_transaction_needs_a_producer_id() -> None:
    assert refusal(batch_of(attributes=TRANSACTIONAL_BIT)) == Code.INVALID_RECORD


def test_times_too_far_from_now_are_refused_both_ways() -> None:
    config = TopicConfig(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=500)
    for time_ms in (NOW_MS + 1000, NOW_MS - 500, -1):
        batch = batch_of(time_ms=time_ms)
        admit(accept(batch), config, NOW_MS)
    assert refusal(batch_of(time_ms=NOW_MS + 1001), config) == Code.INVALID_TIMESTAMP
    assert refusal(batch_of(time_ms=NOW_MS - 501), config) == Code.INVALID_TIMESTAMP


def test_any_time_will_do_where_the_log_sets_it() -> None:
    batch = batch_of(time_ms=NOW_MS * 2)
    admit(accept(batch), TopicConfig(message_timestamp_type="LogAppendTime"), NOW_MS)


def test_a_compacted_topic_wants_a_key_in_every_record() -> None:
    keyed = build([KeyValue(b"", b"v"), KeyValue(b"k", None)], NOW_MS)
    finish(check_keys(keyed, accept(keyed)))
    assert refused_for_keys(build([KeyValue(b"k", b"v"), KeyValue(None, b"v")], NOW_MS)) == Code.INVALID_RECORD


def test_records_that_make_no_sense_are_refused_where_they_are_looked_at() -> None:
    rubbish = assemble(b"rubbish", header_of(batch_of()))
    assert refused_for_keys(rubbish) == Code.INVALID_RECORD


def test_records_whose_offsets_are_not_their_places_are_refused() -> None:
    body = bytearray()
    for delta in (1, 0):
        write_record(body, KeyValue(b"k", b"v"), 0, delta)
    swapped = assemble(body, header_of(batch_of(2)))
    assert refused_for_keys(swapped) == Code.INVALID_RECORD


def test_a_large_batch_is_looked_through_in_steps_and_unpacked_elsewhere() -> None:
    body = build([KeyValue(b"k", b"value")] * 20_000, NOW_MS)
    packed = assemble(pack(bytes(body[61:]), ZSTD), header_of(body)._replace(attributes=ZSTD))

    steps = list(check_keys(packed, accept(packed)))

    assert len(steps) == 1 + 20_000 // RECORDS_A_STEP
    assert isinstance(steps[0], Work)


def refused_for_keys(batch: bytearray) -> Code:
    with pytest.raises(Refused) as refused:
        finish(check_keys(batch, accept(batch)))
    return refused.value.code
