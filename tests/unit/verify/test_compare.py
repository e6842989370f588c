"""Gaps, duplicates and reorderings are counted as they were put in."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.verify.compare import Comparison, Gap, compare
from chronik.verify.ledger import ACKNOWLEDGED, REFUSED, SENT, UNSENT

OK, UNWRITTEN, TWICE, SKIPPED, AGAIN = range(5)


@dataclass
class Story:
    """What a producer, a log and a consumer did, and what must be found of it."""

    states: list[int] = field(default_factory=list)
    sent_to: list[int] = field(default_factory=list)
    given: list[tuple[int, int, int]] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    consumed: int = 0
    written_twice: int = 0
    redelivered: int = 0
    reordered: int = 0
    gaps: int = 0

    def compared(self) -> Comparison:
        numbers, partitions, offsets = ([row[column] for row in self.given] for column in range(3))
        return compare(self.states, self.sent_to, numbers, partitions, offsets, self.starts)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Partitions are read one after the other in pieces; every mishap is put in on purpose and counted."""
    story = Story()
    lanes = []
    for partition in range(draw(st.integers(1, 4))):
        story.starts[partition] = draw(st.integers(0, 1_000))
        lanes.append(_lane(draw, story, partition))
    while any(lanes):
        lane = draw(st.sampled_from([lane for lane in lanes if lane]))
        cut = draw(st.integers(1, len(lane)))
        story.given += lane[:cut]
        del lane[:cut]
    return story


def _lane(draw: st.DrawFn, story: Story, partition: int) -> list[tuple[int, int, int]]:
    """What the consumer is given of one partition."""
    fates = draw(st.lists(st.sampled_from([OK, OK, OK, UNWRITTEN, TWICE, SKIPPED, AGAIN]), max_size=30))
    entries = []
    for fate in fates:
        entries.append((len(story.states), fate))
        story.states.append(SENT if fate == UNWRITTEN else ACKNOWLEDGED)
        story.sent_to.append(partition)
    written = [entry for entry in entries if entry[1] != UNWRITTEN]
    at = 0
    while at + 1 < len(written):
        is_plain = written[at][1] == written[at + 1][1] == OK
        if is_plain and draw(st.booleans()):
            written[at], written[at + 1] = written[at + 1], written[at]
            story.reordered += 1
            at += 1
        at += 1
    lane, offset = [], story.starts[partition]
    skipped = 0  # gaps only count once something after them was given
    for number, fate in written:
        if fate == SKIPPED:
            skipped += 1
        else:
            lane += [(number, partition, offset)] * (2 if fate == AGAIN else 1)
            story.consumed += 1
            story.redelivered += fate == AGAIN
            story.gaps += skipped
            skipped = 0
        offset += 1
        if fate == TWICE:
            lane.append((number, partition, offset))
            story.written_twice += 1
            offset += 1
    return lane


@given(stories())
def test_every_mishap_is_counted_once(story: Story) -> None:
    found = story.compared()

    assert found.produced == len(story.states)
    assert found.acknowledged == story.states.count(ACKNOWLEDGED)
    assert found.consumed == story.consumed
    assert found.written_twice == story.written_twice
    assert found.redelivered == story.redelivered
    assert found.duplicated == story.written_twice + story.redelivered
    assert found.reordered == story.reordered
    assert found.gaps == story.gaps
    assert found.missing == len(story.states) - story.consumed
    assert sum(part.consumed for part in found.partitions) == found.consumed
    assert sum(part.acknowledged for part in found.partitions) == found.acknowledged
    assert all(sum(gap.end_offset - gap.start_offset for gap in p.gap_ranges) <= p.gaps for p in found.partitions)


def test_a_whole_run_has_nothing_to_report() -> None:
    partitions = [number % 3 for number in range(9)]
    offsets = [number // 3 for number in range(9)]

    found = compare([ACKNOWLEDGED] * 9, partitions, range(9), partitions, offsets, {0: 0, 1: 0, 2: 0})

    assert (found.consumed, found.missing, found.gaps, found.duplicated, found.reordered) == (9, 0, 0, 0, 0)
    assert [part.share for part in found.partitions] == [pytest.approx(1 / 3)] * 3
    assert [part.deviation for part in found.partitions] == [0.0] * 3
    assert [(part.first_offset, part.last_offset) for part in found.partitions] == [(0, 2)] * 3
    assert found.imbalance == 0.0


def test_an_uneven_spread_shows_in_share_deviation_and_imbalance() -> None:
    found = compare([ACKNOWLEDGED] * 4, [0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 0, 1], [0, 1, 2, 0], {0: 0, 1: 0})

    assert [part.share for part in found.partitions] == [0.75, 0.25]
    assert [part.deviation for part in found.partitions] == [0.5, -0.5]
    assert found.imbalance == 0.5


def test_a_gap_is_named_by_its_offsets() -> None:
    found = compare([ACKNOWLEDGED] * 4, [0] * 4, [0, 3], [0, 0], [100, 105], {0: 98})

    assert found.partitions[0].gap_ranges == (Gap(98, 100), Gap(101, 105))
    assert found.gaps == 6


def test_a_gap_that_is_filled_later_is_none() -> None:
    found = compare([ACKNOWLEDGED] * 3, [0] * 3, [0, 2, 1], [0] * 3, [0, 2, 1], {0: 0})

    assert found.gaps == 0
    assert found.reordered == 1


def test_a_partition_that_gave_nothing_has_no_offsets() -> None:
    [_, empty] = compare([ACKNOWLEDGED], [0], [0], [0], [0], {0: 0, 1: 0}).partitions

    assert (empty.consumed, empty.first_offset, empty.last_offset, empty.gaps) == (0, None, None, 0)


def test_messages_of_others_are_no_gaps_and_not_counted() -> None:
    found = compare([ACKNOWLEDGED] * 2, [0, 0], [0, -1, 99, 1], [0] * 4, [0, 1, 2, 3], {0: 0})

    assert (found.consumed, found.foreign, found.gaps) == (2, 2, 0)


def test_what_arrived_without_its_producer_being_told_is_counted_apart() -> None:
    found = compare([ACKNOWLEDGED, SENT, REFUSED, UNSENT], [0] * 4, [0, 1, 2], [0] * 3, [0, 1, 2], {0: 0})

    assert (found.produced, found.acknowledged, found.consumed, found.unacknowledged_consumed) == (3, 1, 3, 2)


def test_a_consumer_that_begins_before_the_start_is_followed() -> None:
    found = compare([ACKNOWLEDGED] * 2, [0, 0], [0, 1], [0, 0], [5, 6], {0: 6})

    assert (found.partitions[0].first_offset, found.partitions[0].last_offset, found.gaps) == (5, 6, 0)


def test_nothing_consumed_is_no_division_by_zero() -> None:
    found = compare([SENT] * 3, [0] * 3, [], [], [], {0: 0, 1: 0})

    assert (found.consumed, found.imbalance, found.missing) == (0, 0.0, 3)


def test_a_million_messages_are_compared_in_seconds() -> None:
    count = 1_000_000
    numbers = range(count)
    began = time.monotonic()

    found = compare(bytes([ACKNOWLEDGED]) * count, bytes(count), numbers, bytes(count), numbers, {0: 0})

    assert found.consumed == count
    assert time.monotonic() - began < 20
