"""Which segments a log may let go: too old, or too much."""

from __future__ import annotations

from collections.abc import Sequence

from chronik.core.config.topic import TopicConfig
from chronik.core.log.segment import Segment


def expired(
    segments: Sequence[Segment], config: TopicConfig, start_offset: int, high_watermark: int, now_ms: int
) -> list[tuple[Segment, str]]:
    """The oldest segments that can go, each with the reason. Nothing at or above the high watermark ever goes."""
    deletes = "delete" in config.cleanup_policy
    segments = [segment for segment in segments if segment.end_offset > start_offset]  # the others are gone already
    surplus_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    gone: list[tuple[Segment, str]] = []
    for segment in segments:
        if segment.end_offset > high_watermark or segment.size == 0:
            break
        if deletes and 0 <= config.retention_ms < now_ms - last_time_ms(segment):
            reason = f"older than retention.ms={config.retention_ms}"
        elif deletes and config.retention_bytes >= 0 and surplus_bytes >= segment.size:
            reason = f"more than retention.bytes={config.retention_bytes}"
        else:
            break
        surplus_bytes -= segment.size
        gone.append((segment, reason))
    return gone


def last_time_ms(segment: Segment) -> int:
    """When the last record came, as far as its records tell; else when we came to know the segment."""
    timestamp, _ = segment.newest()
    return timestamp if timestamp >= 0 else segment.created_ms
