"""Which segments go, and why."""

from __future__ import annotations

from chronik.core.config.topic import TopicConfig
from chronik.core.log.retention import expired
from chronik.core.log.segment import Segment
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import DIRECTORY, NOW_MS, batch_of

KEPT_MS = 1000


def segments_of(*times_ms: int) -> list[Segment]:
    """One batch of ten records a segment."""
    files, segments = MemoryFiles(), []
    for number, time_ms in enumerate(times_ms):
        segment = Segment(files, DIRECTORY, number * 10, 4096, NOW_MS)
        segment.append(batch_of(10), number * 10, number * 10 + 9, time_ms)
        segments.append(segment)
    return segments


def gone(segments: list[Segment], config: TopicConfig, *, watermark: int = 10**6) -> list[int]:
    return [segment.base_offset for segment, _ in expired(segments, config, 0, watermark, NOW_MS)]


def test_segments_older_than_the_time_go_up_to_the_first_that_is_not() -> None:
    old, young = NOW_MS - KEPT_MS - 1, NOW_MS - KEPT_MS
    config = TopicConfig(retention_ms=KEPT_MS)
    assert gone(segments_of(old, old, young, old), config) == [0, 10]


def test_the_last_segment_goes_too_when_all_of_it_is_old() -> None:
    assert gone(segments_of(0, 0), TopicConfig(retention_ms=KEPT_MS)) == [0, 10]


def test_nothing_goes_that_is_not_below_the_high_watermark() -> None:
    assert gone(segments_of(0, 0, 0), TopicConfig(retention_ms=KEPT_MS), watermark=19) == [0]


def test_segments_go_while_the_rest_still_has_the_size_to_keep() -> None:
    segments = segments_of(*[NOW_MS] * 5)
    size = segments[0].size
    assert gone(segments, TopicConfig(retention_bytes=2 * size)) == [0, 10, 20]
    assert gone(segments, TopicConfig(retention_bytes=2 * size + 1)) == [0, 10]
    assert gone(segments, TopicConfig(retention_bytes=-1)) == []


def test_a_topic_that_is_only_compacted_keeps_all() -> None:
    config = TopicConfig(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
    assert gone(segments_of(0, 0, 0), config) == []


def test_without_a_limit_everything_stays() -> None:
    assert gone(segments_of(0, 0), TopicConfig(retention_ms=-1)) == []


def test_records_without_a_time_are_as_old_as_our_knowledge_of_them() -> None:
    segments = segments_of(-1, -1)
    assert gone(segments, TopicConfig(retention_ms=KEPT_MS)) == []
    segments[0].created_ms = NOW_MS - KEPT_MS - 1
    assert gone(segments, TopicConfig(retention_ms=KEPT_MS)) == [0]


def test_each_goes_with_its_reason() -> None:
    segments = segments_of(0, 0, NOW_MS)
    reasons = [why for _, why in expired(segments, TopicConfig(retention_ms=KEPT_MS), 0, 100, NOW_MS)]
    assert reasons == ["older than retention.ms=1000"] * 2
