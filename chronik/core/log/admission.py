"""What a topic's settings say about a producer's batch, before the log looks at who sent it.

All of it can be read off the batch header but one thing: a compacted topic wants a key in every record. That may take
long, so it is asked for apart (`check_keys`), before the batch is appended.
"""

from __future__ import annotations

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.records.batch import CONTROL_BIT, LENGTH_FIELD_END, TIMESTAMP_TYPE_BIT, BatchHeader
from chronik.core.records.payload import skim, unpacked
from chronik.core.records.steps import RECORDS_A_STEP, Steps
from chronik.core.types import NO_TIMESTAMP, Buffer


def admit(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Refuse what the settings of the topic do not allow."""
    size = header.length + LENGTH_FIELD_END
    if size > config.max_message_bytes:
        raise Refused(
            Code.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, max.message.bytes is {config.max_message_bytes}"
        )
    if header.attributes & (CONTROL_BIT | TIMESTAMP_TYPE_BIT):
        if header.attributes & CONTROL_BIT:
            raise Refused(Code.INVALID_RECORD, "only brokers write control batches")
        raise Refused(Code.INVALID_TIMESTAMP, "only brokers set the time of appending")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise Refused(Code.INVALID_RECORD, "a producer id without epoch and sequence")
    elif header.is_transactional:
        raise Refused(Code.INVALID_RECORD, "a transactional batch without a producer id")
    if not config.is_timed_by_log:
        _check_time(header, config, now_ms)


def _check_time(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    # The header tells the first and the latest time. Kafka looks at every record; a record older than the first one
    # of its batch is not worth unpacking them all.
    if header.max_timestamp == NO_TIMESTAMP:
        return
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        limit = f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}"
        raise Refused(Code.INVALID_TIMESTAMP, f"time {header.max_timestamp} is too far ahead of {now_ms}: {limit}")
    if now_ms - header.base_timestamp > config.message_timestamp_before_max_ms:
        limit = f"message.timestamp.before.max.ms is {config.message_timestamp_before_max_ms}"
        raise Refused(Code.INVALID_TIMESTAMP, f"time {header.base_timestamp} is too far behind {now_ms}: {limit}")


def check_keys(batch: Buffer, header: BatchHeader) -> Steps[None]:
    """Refuse a batch for a compacted topic that has a record without a key, or that cannot be taken apart."""
    try:
        records = yield from unpacked(batch, header)
        for number, record in enumerate(skim(records, header), 1):
            if record.key_bytes < 0:
                raise Refused(Code.INVALID_RECORD, "a compacted topic takes no record without a key")
            if number % RECORDS_A_STEP == 0:
                yield None
    except Corrupt as problem:
        raise Refused(Code.INVALID_RECORD, problem.what) from problem
