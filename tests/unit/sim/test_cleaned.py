"""The judge of topics whose records go can find each of the faults that it is there for."""

from __future__ import annotations

import pytest

from chronik.core.types import TopicPartition
from chronik.sim.chance import SimChance
from chronik.sim.cleaned import AGED, KEYED, Cleaned, Pair, Records
from chronik.sim.run import run_seed
from chronik.sim.story import Violation, WorldStory


def records(*, is_keyed: bool = True) -> Records:
    known = Records(TopicPartition(KEYED if is_keyed else AGED, 0), WorldStory(lambda: 0.0), is_keyed=is_keyed)
    pairs = [Pair(b"a", b"1"), Pair(b"b", b"2"), Pair(b"a", None)]
    known.sent([*pairs, Pair(b"b", b"never acknowledged")])
    known.acknowledged("test", 0, pairs)
    return known


def test_what_compaction_leaves_is_right_with_and_without_its_tombstone() -> None:
    known = records()
    known.whole("test", 0, {1: Pair(b"b", b"2"), 2: Pair(b"a", None)})
    known.whole("test", 0, {1: Pair(b"b", b"2")})


def test_an_offset_with_another_record_is_found() -> None:
    with pytest.raises(Violation, match="offset 1 has"):
        records().saw("test", 1, Pair(b"a", b"1"))


def test_a_record_that_was_never_sent_is_found() -> None:
    with pytest.raises(Violation, match="never sent"):
        records().saw("test", 7, Pair(b"a", b"other"))


def test_a_deleted_key_that_is_back_is_found() -> None:
    with pytest.raises(Violation, match="and None was acknowledged last"):
        records().whole("test", 0, {0: Pair(b"a", b"1"), 1: Pair(b"b", b"2")})


def test_a_key_without_its_latest_value_is_found() -> None:
    with pytest.raises(Violation, match="acknowledged last"):
        records().whole("test", 0, {2: Pair(b"a", None)})


def test_what_is_missing_above_the_log_start_is_found_and_what_is_below_may_go() -> None:
    known = records(is_keyed=False)
    known.whole("test", 2, {2: Pair(b"a", None)})
    with pytest.raises(Violation, match="starts at 1 and has not"):
        known.whole("test", 1, {2: Pair(b"a", None)})


def test_a_log_start_below_what_was_deleted_is_found() -> None:
    known = records(is_keyed=False)
    known.deleted(2)
    known.start_seen("test", 2, known.deleted_below)
    with pytest.raises(Violation, match="below 2 is deleted"):
        known.start_seen("test", 1, known.deleted_below)


def seed_with(topic: str) -> int:
    worlds = (SimChance(seed, "world").other("keyed") for seed in range(200))
    return next(
        seed for seed, dice in enumerate(worlds) if list(Cleaned(dice, 1, WorldStory(lambda: 0.0)).plans) == [topic]
    )


def test_a_world_with_a_keyed_topic_compacts_it_and_keeps_its_promises() -> None:
    outcome = run_seed(seed_with(KEYED), node_count=1, is_whole_story_kept=True)

    assert outcome.broken is None
    assert any(f"{KEYED}-0" in line and "less by compaction" in line for line in outcome.story)
