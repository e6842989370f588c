"""What a topic's settings refuse."""

from __future__ import annotations

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, InvalidRecords, RecordError, Refused
from chronik.core.log.admission import RECORD_ERRORS_MAX, admit, check_records
from chronik.core.records.batch import CONTROL_BIT, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, accept
from chronik.core.records.payload import KeyValue, Record, assemble, build, pack, write_record
from chronik.core.records.steps import RECORDS_A_STEP, Work, finish
from tests.unit.core.log.logs import NOW_MS, batch_of, header_of

ZSTD = 4
COMPACTED = TopicConfig(cleanup_policy=("compact",))


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
    finish(check_records(keyed, accept(keyed), COMPACTED, NOW_MS))
    assert refused_for_records(build([KeyValue(b"k", b"v"), KeyValue(None, b"v")], NOW_MS)).code == Code.INVALID_RECORD


def test_each_record_without_a_key_is_named_by_its_place_and_no_other() -> None:
    records = [KeyValue(None if number % 10 == 0 else b"k", b"v") for number in range(100)]
    refused = refused_for_records(build(records, NOW_MS))
    assert isinstance(refused, InvalidRecords)
    assert [error.batch_index for error in refused.record_errors] == list(range(0, 100, 10))
    assert all(error.message and "key" in error.message for error in refused.record_errors)
    assert str(refused).startswith("10 of 100 records")


def test_records_out_of_the_times_of_a_topic_are_named() -> None:
    """Records out of the times of a topic are named and those without a time are not."""
    config = TopicConfig(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=500)
    times = (NOW_MS, NOW_MS + 1001, NOW_MS + 1000, NOW_MS - 501, NOW_MS - 500, -1)
    batch = build([Record(0, time_ms, None, b"v") for time_ms in times], NOW_MS)
    refused = refused_for_records(batch, config)
    assert refused.code == Code.INVALID_TIMESTAMP
    allowed = f"its time is not between {NOW_MS - 500} and {NOW_MS + 1000}"
    assert isinstance(refused, InvalidRecords)
    assert refused.record_errors == (RecordError(1, allowed), RecordError(3, allowed))


def test_a_time_that_is_not_allowed_decides_over_the_code_of_the_batch() -> None:
    batch = build([Record(0, NOW_MS, None, b"v"), Record(0, NOW_MS * 2, b"k", b"v")], NOW_MS)
    refused = refused_for_records(batch)
    assert refused.code == Code.INVALID_TIMESTAMP
    assert isinstance(refused, InvalidRecords)
    assert [error.batch_index for error in refused.record_errors] == [0, 1]


def test_where_the_log_sets_the_time_no_record_is_judged_by_its_own() -> None:
    batch = build([Record(0, NOW_MS * 2, b"k", b"v")], NOW_MS)
    config = TopicConfig(cleanup_policy=("compact",), message_timestamp_type="LogAppendTime")
    finish(check_records(batch, accept(batch), config, NOW_MS))


def test_of_one_batch_only_so_many_records_are_named_and_all_are_counted() -> None:
    refused = refused_for_records(build([KeyValue(None, b"v")] * (RECORD_ERRORS_MAX + 5), NOW_MS))
    assert isinstance(refused, InvalidRecords)
    assert len(refused.record_errors) == RECORD_ERRORS_MAX
    assert str(refused).startswith(f"{RECORD_ERRORS_MAX + 5} of {RECORD_ERRORS_MAX + 5} records")


def test_a_batch_that_is_too_large_is_not_looked_through() -> None:
    batch = build([KeyValue(None, b"v")], NOW_MS)
    config = TopicConfig(cleanup_policy=("compact",), max_message_bytes=10)
    assert refused_for_records(batch, config).code == Code.MESSAGE_TOO_LARGE


def test_only_topics_that_need_it_look_at_each_record() -> None:
    """Only a topic that wants keys or limits how old a time may be looks at each record."""
    assert COMPACTED.checks_each_record
    assert TopicConfig(message_timestamp_before_max_ms=1000).checks_each_record
    by_log = TopicConfig(message_timestamp_before_max_ms=1000, message_timestamp_type="LogAppendTime")
    assert not by_log.checks_each_record
    assert not TopicConfig().checks_each_record


def test_records_that_make_no_sense_are_refused_where_they_are_looked_at() -> None:
    rubbish = assemble(b"rubbish", header_of(batch_of()))
    assert refused_for_records(rubbish).code == Code.INVALID_RECORD


def test_records_whose_offsets_are_not_their_places_are_refused() -> None:
    body = bytearray()
    for delta in (1, 0):
        write_record(body, KeyValue(b"k", b"v"), 0, delta)
    swapped = assemble(body, header_of(batch_of(2)))
    assert refused_for_records(swapped).code == Code.INVALID_RECORD


def test_a_large_batch_is_looked_through_in_steps_and_unpacked_elsewhere() -> None:
    body = build([KeyValue(b"k", b"value")] * 20_000, NOW_MS)
    packed = assemble(pack(bytes(body[61:]), ZSTD), header_of(body)._replace(attributes=ZSTD))

    steps = list(check_records(packed, accept(packed), COMPACTED, NOW_MS))

    assert len(steps) == 1 + 20_000 // RECORDS_A_STEP
    assert isinstance(steps[0], Work)


def refused_for_records(batch: bytearray, config: TopicConfig = COMPACTED) -> Refused:
    with pytest.raises(Refused) as refused:
        finish(check_records(batch, accept(batch), config, NOW_MS))
    return refused.value
