"""What a topic's settings say about a producer's batch, before the log looks at who sent it.

Mostly all of it can be read off the batch header. Two things cannot: that every record of a compacted topic has a key,
and that no record is older than `message.timestamp.before.max.ms` allows. For these the records are looked through
before the batch is appended (`check_records`), which may take long. So are those of a batch whose header has a time
that is not allowed: the answer names the records that are at fault (KIP-467).
"""

from __future__ import annotations

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Corrupt, InvalidRecords, RecordError, Refused
from chronik.core.records.batch import CONTROL_BIT, LENGTH_FIELD_END, TIMESTAMP_TYPE_BIT, BatchHeader
from chronik.core.records.payload import Skimmed, skim, unpacked
from chronik.core.records.steps import RECORDS_A_STEP, Steps
from chronik.core.types import NO_TIMESTAMP, Buffer

# Of one batch no more bad records are named, and of a request no more altogether (api/produce.py). librdkafka puts no
# more than 10,000 records into a batch unless configured to. A producer takes those that are not named for good ones,
# sends them again, and then they are named.
RECORD_ERRORS_MAX = 10_000
SHOWN_MAX = 3  # in the message about the whole batch
_NO_KEY = "a compacted topic takes no record without a key"


def admit(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Refuse what the settings of the topic do not allow, as far as the header says."""
    _check_header(header, config)
    if not config.is_timed_by_log:
        _check_time(header, config, now_ms)


def _check_header(header: BatchHeader, config: TopicConfig) -> None:
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


def _check_time(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if header.max_timestamp == NO_TIMESTAMP:
        return
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms:
        limit = f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}"
        raise Refused(Code.INVALID_TIMESTAMP, f"time {header.max_timestamp} is too far ahead of {now_ms}: {limit}")
    if now_ms - header.base_timestamp > config.message_timestamp_before_max_ms:
        limit = f"message.timestamp.before.max.ms is {config.message_timestamp_before_max_ms}"
        raise Refused(Code.INVALID_TIMESTAMP, f"time {header.base_timestamp} is too far behind {now_ms}: {limit}")


def check_records(batch: Buffer, header: BatchHeader, config: TopicConfig, now_ms: int) -> Steps[None]:
    """Refuse a batch with a record that the topic does not take, and name such records; or one that cannot be taken
    apart. As in Kafka, a time that is not allowed decides over the error code of the batch."""
    _check_header(header, config)
    faults = _Faults(config, now_ms)
    try:
        records = yield from unpacked(batch, header)
        earliest_ms, latest_ms, key_bytes_min = faults.earliest_ms, faults.latest_ms, faults.key_bytes_min
        for index, record in enumerate(skim(records, header)):
            if not earliest_ms <= record.timestamp <= latest_ms or record.key_bytes < key_bytes_min:
                faults.note(index, record)
            if index % RECORDS_A_STEP == RECORDS_A_STEP - 1:
                yield None
    except Corrupt as problem:
        raise Refused(Code.INVALID_RECORD, problem.what) from problem
    faults.refuse(header.record_count)


class _Faults:
    """What a topic wants of each record, and the records of one batch that are not so."""

    def __init__(self, config: TopicConfig, now_ms: int) -> None:
        self.key_bytes_min = 0 if config.is_compacted else -1  # -1: no key
        before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        any_time = 2**64
        self.earliest_ms = -any_time if config.is_timed_by_log else now_ms - before_ms
        self.latest_ms = any_time if config.is_timed_by_log else now_ms + after_ms
        # The same text for all: a producer knows its record's time.
        self._untimely = f"its time is not between {self.earliest_ms} and {self.latest_ms}"
        self._count = 0
        self._has_untimely = False
        self._named: list[RecordError] = []

    def note(self, index: int, record: Skimmed) -> None:
        """A record that may be at fault: one without a time is not judged by it."""
        if record.key_bytes < self.key_bytes_min:
            message = _NO_KEY
        elif record.timestamp == NO_TIMESTAMP:
            return
        else:
            message, self._has_untimely = self._untimely, True
        self._count += 1
        if len(self._named) < RECORD_ERRORS_MAX:
            self._named.append(RecordError(index, message))

    def refuse(self, record_count: int) -> None:
        """Raise InvalidRecords if there was one."""
        if not self._count:
            return
        shown = "; ".join(f"record {index}: {message}" for index, message in self._named[:SHOWN_MAX])
        more = "" if self._count <= SHOWN_MAX else f"; and {self._count - SHOWN_MAX} more"
        code = Code.INVALID_TIMESTAMP if self._has_untimely else Code.INVALID_RECORD
        message = f"{self._count} of {record_count} records are not taken: {shown}{more}"
        raise InvalidRecords(code, message, self._named)
