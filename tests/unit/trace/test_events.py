"""The schema is a contract: what is written is read back, what is new is passed over, and the page has all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from chronik.trace.events import (
    SCHEMA_VERSION,
    AnyEvent,
    Batch,
    FollowerSeen,
    GroupSeen,
    MemberSeen,
    OffsetSeen,
    PartitionSeen,
    ProduceAnswered,
    ProduceAppended,
    Produced,
    ProducedBatches,
    TraceBegan,
    Written,
    count_of,
    from_lines,
    to_lines,
)

KINDS: tuple[type[msgspec.Struct], ...] = get_args(AnyEvent)
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "trace.md").read_text(encoding="utf-8")


def tag_of(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


@pytest.mark.parametrize("kind", get_args(Written), ids=tag_of)
def test_every_kind_and_field_is_on_the_page(kind: type[msgspec.Struct]) -> None:
    section = PAGE.partition(f"**`{tag_of(kind)}`**")[2].partition("\n**`")[0].partition("\n### ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    if tag_of(kind) == "fetch_answered":  # "all fields of"
        named |= set(re.findall(r"`([a-z_]+)`", PAGE.partition("**`fetch_waits`**")[2].partition("\n**`")[0]))
    if tag_of(kind) == "produced":  # "all fields of"
        for part in ("produce_appended", "produce_answered"):
            named |= set(re.findall(r"`([a-z_]+)`", PAGE.partition(f"**`{part}`**")[2].partition("\n**`")[0]))
    if tag_of(kind) == "group_left":
        named |= {"group", "member_id", "client_id", "host"}

    assert section
    assert set(kind.__struct_fields__) - {"at_us", "node"} <= named
    assert kind is not ProducedBatches or set(Batch._fields) <= named
    assert f"version {SCHEMA_VERSION}" in PAGE


@pytest.mark.parametrize("kind", KINDS, ids=tag_of)
def test_an_event_is_read_back_as_it_was_written(kind: type[msgspec.Struct]) -> None:
    event = _filled(kind)

    line = to_lines([event])

    assert line.endswith(b"\n")
    assert line.startswith(b'{"kind":"%s",' % tag_of(kind).encode())
    assert from_lines(line) == [event]


def test_a_batch_that_was_written_as_one_is_read_as_its_two_steps() -> None:
    batch = Produced(
        1_000_500, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 7, 0, 40, 100, 110, 1500, False, 3, 90, 110, (1, 2), 500
    )

    appended, answered = from_lines(to_lines([batch]))

    assert appended == ProduceAppended(
        1_000_000, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 7, 0, 40, 100, 110, 1500, False, 3, 90
    )
    assert answered == ProduceAnswered(
        1_000_500, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 100, 110, 90, 110, (1, 2), 500
    )
    assert count_of([batch, TraceBegan(1, 1)]) == 3


def test_batches_that_were_written_in_one_line_are_read_as_their_steps() -> None:
    first = Batch(1_000_000, 500, 7, 0, 40, 100, 110, 1500, False, 90, 110, (1, 2))
    retry = Batch(1_000_200, 900, 7, 0, 40, 100, 110, 1500, True, 110, 111, (1,))
    run = ProducedBatches(1_002_000, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 3, [first, retry])
    who = "orders", 2, "app", "10.0.0.7", 5, -1

    told = from_lines(to_lines([run]))

    assert told == [
        ProduceAppended(1_000_000, 1, *who, 7, 0, 40, 100, 110, 1500, False, 3, 90),
        ProduceAnswered(1_000_500, 1, *who, 100, 110, 90, 110, (1, 2), 500),
        ProduceAppended(1_000_200, 1, *who, 7, 0, 40, 100, 110, 1500, True, 3, 110),
        ProduceAnswered(1_001_100, 1, *who, 100, 110, 110, 111, (1,), 900),
    ]
    assert count_of([run, TraceBegan(1, 1)]) == 5


def test_a_batch_is_written_as_an_array_in_the_order_that_the_page_gives() -> None:
    batch = Batch(1, 2, 3, 4, 5, 6, 7, 8, False, 9, 10, (11,))
    run = ProducedBatches(20, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 3, [batch])

    assert b'"batches":[[1,2,3,4,5,6,7,8,false,9,10,[11]]]' in to_lines([run])


def test_a_trace_of_the_first_version_is_read_as_it_is() -> None:
    first = (
        b'{"kind":"produce_answered","at_us":9,"node":1,"topic":"t","partition":0,"client_id":"a","host":"h",'
        b'"connection":5,"acks":1,"base_offset":0,"to_offset":1,"watermark_before":0,"watermark":1,"in_sync":[1],'
        b'"took_us":4}\n'
    )

    assert from_lines(first) == [ProduceAnswered(9, 1, "t", 0, "a", "h", 5, 1, 0, 1, 0, 1, (1,), 4)]


def test_what_is_nested_is_read_back() -> None:
    follower = FollowerSeen(2, True, 5, 1, 20, 3)
    partition = PartitionSeen(1, 1, "orders", 0, 0, 0, 5, 5, 6, 6, (1, 2), 2, (follower,), 99)
    member = MemberSeen("m", "app", "10.0.0.7", (("orders", 0),))
    group = GroupSeen(1, 1, "g", "classic", "Stable", 3, 10, (member,), (OffsetSeen("orders", 0, 5),))

    assert from_lines(to_lines([partition, group])) == [partition, group]


def test_a_reader_passes_over_fields_that_it_does_not_know() -> None:
    line = b'{"kind":"trace_began","at_us":5,"node":2,"something":{"new":1}}\n'

    assert from_lines(line) == [TraceBegan(5, 2)]


def test_a_kind_that_is_unknown_is_an_error_and_not_another_kind() -> None:
    with pytest.raises(msgspec.ValidationError):
        from_lines(b'{"kind":"never_heard_of","at_us":5,"node":2}\n')


def _filled(kind: type[msgspec.Struct]) -> Any:
    """An event of this kind with something in every field."""
    samples: dict[Any, Any] = {int: 7, str: "ü\n", bool: True, tuple[int, ...]: (1, 2), str | None: None}
    fields = {
        field.name: () if field.name in ("followers", "members", "offsets") else samples[field.type]
        for field in msgspec.structs.fields(kind)
    }
    if "members" in fields and tag_of(kind) == "group_changed":
        fields["members"] = 3
    return kind(**fields)
