"""What a log knows of its producers when it is opened again."""

from __future__ import annotations

import pytest

from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Refused
from chronik.core.log.appended import Appended
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of, open_log, put

SMALL = TopicConfig(segment_bytes=1500, index_interval_bytes=300)


@pytest.mark.parametrize("is_kafkas", [True, False])
def test_every_retry_of_the_last_five_batches_is_known_after_a_restart(is_kafkas: bool) -> None:
    for was_clean in (True, False):
        files = MemoryFiles()
        log = open_log(files, SMALL)
        for number in range(20):
            put(log, batch_of(2, producer_id=1, sequence=2 * number, value=b"v" * 200))
            put(log, batch_of(1, value=b"v" * 100))
            log.producers.states()[0].is_recalled = not is_kafkas  # a snapshot of Kafka's tells the last batch only
        if was_clean:
            log.close()
        again = open_log(files, SMALL, was_clean=was_clean)
        for number in range(15, 20):
            retried = put(again, batch_of(2, producer_id=1, sequence=2 * number, value=b"v" * 200))
            assert retried == Appended(3 * number, 3 * number + 1, is_new=False)
        with pytest.raises(Refused):
            put(again, batch_of(2, producer_id=1, sequence=50))
        assert put(again, batch_of(2, producer_id=1, sequence=40)).is_new


def test_so_is_one_whose_batch_was_deleted_since() -> None:
    files = MemoryFiles()
    log = open_log(files, TopicConfig(segment_bytes=200))
    for sequence in range(7):  # each in a segment of its own
        put(log, batch_of(value=b"v" * 120, producer_id=7, sequence=sequence))
    log.advance_start(6)
    assert log.remove_below(6, NOW_MS) == 6

    again = open_log(files, log.config, log_start_offset=6)

    for sequence in range(2, 7):
        assert not put(again, batch_of(value=b"v" * 120, producer_id=7, sequence=sequence)).is_new
    assert put(again, batch_of(producer_id=7, sequence=7)).base_offset == 7


def test_a_producer_is_not_held_to_what_it_had_sent_before_retention() -> None:
    """A producer is not held to what it had sent before retention and a power cut took the rest."""
    files = MemoryFiles()
    log = open_log(files, TopicConfig(segment_bytes=200, retention_ms=1000))
    for sequence in range(4):  # each in a segment of its own
        put(log, batch_of(value=b"v" * 120, producer_id=7, sequence=sequence))
    log.expire(NOW_MS + 5000, high_watermark=4)
    log.remove_below(4, NOW_MS)
    assert (log.start_offset, log.end_offset) == (4, 4)
    files.replace(f"{log.directory}/{4:020}.snapshot", b"torn")  # it had not been synced

    again = open_log(files, log.config, log_start_offset=4)

    assert put(again, batch_of(producer_id=7, sequence=4)).base_offset == 4
