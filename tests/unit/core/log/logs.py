"""Making batches and logs for the tests of this folder, and reading a log back as a consumer would."""

from __future__ import annotations

from chronik.core.config.topic import TopicConfig
from chronik.core.log.appended import Appended
from chronik.core.log.log import Log
from chronik.core.log.producers import VerificationGuard
from chronik.core.records.batch import TRANSACTIONAL_BIT, BatchHeader, accept, read_header
from chronik.core.records.control import Marker
from chronik.core.records.payload import KeyValue, build
from tests.unit.core.fakes import MemoryFiles

DIRECTORY = "topic-0"
NOW_MS = 1_700_000_000_000
SEGMENT = f"{DIRECTORY}/00000000000000000000"


def batch_of(
    count: int = 1,
    *,
    value: bytes = b"value",
    time_ms: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> bytearray:
    """A batch as a producer sends it."""
    records = [KeyValue(b"key", value)] * count
    epoch = 0 if producer_id >= 0 and producer_epoch < 0 else producer_epoch
    return build(
        records, time_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes
    )


def put(
    log: Log,
    batch: bytearray,
    *,
    leader_epoch: int = 0,
    now_ms: int = NOW_MS,
    guard: VerificationGuard | None = None,
) -> Appended:
    """Append as a leader does."""
    return log.append(batch, accept(batch), leader_epoch, now_ms, guard)


def put_in_transaction(
    log: Log, producer_id: int, *, sequence: int = 0, epoch: int = 0, count: int = 1, value: bytes = b"value"
) -> Appended:
    """Append a transaction's batch that its coordinator has confirmed."""
    made = {"producer_id": producer_id, "producer_epoch": epoch, "sequence": sequence}
    batch = batch_of(count, value=value, attributes=TRANSACTIONAL_BIT, **made)
    return put(log, batch, guard=log.producers.begin_verification(read_header(batch)))


def end_transaction(
    log: Log,
    producer_id: int,
    *,
    is_commit: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> Appended:
    marker = Marker(is_commit, coordinator_epoch)
    return log.append_marker(marker, producer_id, epoch, 0, NOW_MS, transaction_version)


def open_log(
    files: MemoryFiles,
    config: TopicConfig | None = None,
    *,
    was_clean: bool = False,
    synced_offset: int = 0,
    log_start_offset: int = 0,
) -> Log:
    return Log.open(
        files,
        DIRECTORY,
        config or TopicConfig(),
        NOW_MS,
        was_clean=was_clean,
        synced_offset=synced_offset,
        log_start_offset=log_start_offset,
    )


def sync(log: Log) -> None:
    """What the node's group commit does."""
    files, end_offset = log.unsynced()
    for file in files:
        file.sync()
    log.mark_synced(end_offset)


def filled(
    files: MemoryFiles, batches: int, config: TopicConfig | None = None, *, count: int = 2, value: bytes = b"v" * 100
) -> tuple[Log, list[bytes]]:
    """A log with so many batches, each of its own time, and the bytes of each as they stand on disk."""
    log = open_log(files, config)
    written = []
    for number in range(batches):
        batch = batch_of(count, value=value, time_ms=NOW_MS + number)
        put(log, batch)
        written.append(bytes(batch))
    return log, written


def contents(log: Log, max_bytes: int = 10_000_000) -> bytes:
    """All bytes from start to end, read in pages and checked as they would be before they are served."""
    offset, read = log.start_offset, b""
    while offset < log.end_offset:
        plan = log.read(offset, log.end_offset, max_bytes, at_least_one=True)
        assert plan is not None, f"nothing to read at {offset} of {log.end_offset}"
        page = plan.file.read(plan.position, plan.length)
        if plan.needs_check:
            log.check_slice(plan, page)
        assert plan.next_offset > offset
        read += page
        offset = plan.next_offset
    return read


def header_of(batch: bytes | bytearray) -> BatchHeader:
    return read_header(batch)
