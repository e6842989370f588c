"""Rows of a topic: what is not known is not counted as nothing."""

from __future__ import annotations

from chronik.inspect.topic_rows import messages


def test_partitions_that_no_leader_tells_of_are_not_counted_as_empty() -> None:
    starts = {("t", 0): 5, ("t", 1): 7, ("t", 2): None}

    told = messages(starts, {("t", 0): 8, ("t", 1): None, ("t", 2): None})

    assert told == "about 3 messages and those of partition 1, 2, which no leader tells of now"
    assert messages({("t", 0): 5}, {("t", 0): 8}) == "about 3 messages"
