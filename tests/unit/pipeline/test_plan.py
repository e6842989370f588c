"""How much is read, and in how many pieces."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.pipeline.topics.client import ReadPartition
from chronik.pipeline.topics.plan import OffsetRange, ReadOffsets, rate_limited, split

A, B, C = ReadPartition("a", 0), ReadPartition("a", 1), ReadPartition("b", 0)
AN_ID = uuid.UUID(int=7)

ranges_of_offsets = st.dictionaries(
    st.sampled_from([A, B, C]), st.tuples(st.integers(0, 10**6), st.integers(0, 4) | st.integers(0, 10**6)), min_size=1
)


def test_offsets_survive_the_checkpoint() -> None:
    offsets = ReadOffsets({A: 5, B: 0, C: 9}, {"a": AN_ID, "b": None})

    kept = offsets.to_json()

    assert kept["a"] == {"id": str(AN_ID), "offsets": {"0": 5, "1": 0}}
    assert ReadOffsets.from_json(kept) == offsets


def test_where_a_stream_began_survives_in_the_end_of_its_first_micro_batch() -> None:
    end = ReadOffsets({A: 5, B: 0, C: 9}, {"a": AN_ID, "b": None}, {A: 2, B: 0, C: 9})

    kept = end.to_json()
    again = ReadOffsets.from_json(json.loads(json.dumps(kept)))

    assert again == end
    assert json.dumps(again.to_json()) == json.dumps(kept)
    assert not end.is_first
    assert ReadOffsets(end.first, end.topic_ids, end.first).is_first


def test_a_checkpoint_that_does_not_say_where_the_stream_began_is_read() -> None:
    older = {"a": {"id": str(AN_ID), "offsets": {"0": 5}}}

    offsets = ReadOffsets.from_json(older)

    assert offsets == ReadOffsets({A: 5}, {"a": AN_ID})
    assert not offsets.is_first
    assert json.dumps(offsets.to_json()) == json.dumps(older)


def test_a_checkpoint_of_another_source_is_told_from_ours() -> None:
    with pytest.raises(ValueError, match="not one of this source"):
        ReadOffsets.from_json({"a": {"0": 5}})


def test_a_limit_is_shared_in_proportion() -> None:
    ends = rate_limited({A: 0, B: 100, C: 0}, {A: 900, B: 200, C: 0}, 100)

    assert ends == {A: 90, B: 110, C: 0}


@given(ranges_of_offsets, st.integers(1, 8) | st.integers(1, 10**6))
def test_a_limit_is_used_up_and_never_exceeded(sizes: dict[ReadPartition, tuple[int, int]], rows_max: int) -> None:
    start = {partition: begin for partition, (begin, _) in sizes.items()}
    latest = {partition: begin + size for partition, (begin, size) in sizes.items()}

    ends = rate_limited(start, latest, rows_max)

    assert all(start[partition] <= ends[partition] <= latest[partition] for partition in sizes)
    assert sum(ends.values()) - sum(start.values()) == min(rows_max, sum(latest.values()) - sum(start.values()))


def test_a_small_partition_beside_a_huge_one_is_read_in_the_end() -> None:
    done = {A: 0, B: 0}
    for _ in range(200):
        done = rate_limited(done, {A: 1_000, B: 1}, 10)

    assert done == {A: 1_000, B: 1}


def test_one_hot_partition_is_cut_for_all_cores() -> None:
    pieces = split([OffsetRange(A, AN_ID, 10, 1010), OffsetRange(B, AN_ID, 5, 5)], 4)

    assert [(piece.start_offset, piece.end_offset) for piece in pieces] == [
        (10, 260),
        (260, 510),
        (510, 760),
        (760, 1010),
    ]


@given(ranges_of_offsets, st.none() | st.integers(1, 50))
def test_pieces_cover_each_offset_once(sizes: dict[ReadPartition, tuple[int, int]], pieces_min: int | None) -> None:
    ranges = [OffsetRange(partition, None, begin, begin + size) for partition, (begin, size) in sizes.items()]

    pieces = split(ranges, pieces_min)

    for whole in ranges:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        covered = whole.start_offset
        for piece in mine:
            assert piece.start_offset == covered
            assert len(piece) > 0
            covered = piece.end_offset
        assert covered == whole.end_offset
