"""The store of committed offsets."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.machines.groups.offsets import NO_TOPIC_ID, CommittedOffset, CommittedOffsets, measuring_ms, stamp_ms

AT_7 = CommittedOffset(7, 1, "note", 1_000)


def test_what_is_put_is_found_and_what_is_forgotten_is_gone() -> None:
    offsets = CommittedOffsets()
    offsets.put("g", "t", 0, AT_7)
    assert offsets.get("g", "t", 0) == AT_7
    assert offsets.get("g", "t", 1) is None
    offsets.forget("g", "t", 0)
    assert offsets.get("g", "t", 0) is None
    assert offsets.of("g") == {}


def test_forgetting_what_was_never_there_is_no_error() -> None:
    offsets = CommittedOffsets()
    offsets.forget("g", "t", 0)
    offsets.put("g", "t", 0, AT_7)
    offsets.forget("g", "t", 1)
    assert offsets.get("g", "t", 0) == AT_7


def test_offsets_of_topics_are_found_over_all_groups() -> None:
    offsets = CommittedOffsets()
    for group_id, topic, partition in (("g", "t", 0), ("g", "u", 0), ("h", "t", 3)):
        offsets.put(group_id, topic, partition, AT_7)
    offsets.put("h", "t", 4, replace(AT_7, topic_id=b"another topic   "))
    assert list(offsets.of_topics({("t", NO_TOPIC_ID), ("missing", NO_TOPIC_ID)})) == [("g", "t", 0), ("h", "t", 3)]
    assert offsets.topics() == {("t", NO_TOPIC_ID), ("u", NO_TOPIC_ID), ("t", b"another topic   ")}


def test_an_expiry_of_its_own_goes_before_the_retention() -> None:
    own = CommittedOffset(7, -1, "", 1_000, expire_ms=5_000)
    assert not own.is_expired(4_999, since_ms=0, retention_ms=10)
    assert own.is_expired(5_000, since_ms=5_000, retention_ms=10)
    assert AT_7.is_expired(1_010, since_ms=1_000, retention_ms=10)
    assert not AT_7.is_expired(1_009, since_ms=1_000, retention_ms=10)


def test_of_two_clocks_the_later_stamps_and_the_earlier_measures() -> None:
    assert stamp_ms(1_000, 5_000) == stamp_ms(5_000, 1_000) == 5_000
    assert measuring_ms(1_000, 5_000) == measuring_ms(5_000, 1_000) == 1_000
    assert stamp_ms(1_000, None) == measuring_ms(1_000, None) == 1_000
