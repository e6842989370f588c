"""The schema is a contract: what is written is read back, what is new is passed over, and the page has all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from chronik.trace.events import (
    AnyEvent,
    FollowerSeen,
    GroupSeen,
    MarkerMissing,
    MemberSeen,
    OffsetSeen,
    OpenTransactionSeen,
    PartitionSeen,
    TraceBegan,
    TransactionSeen,
)
from chronik.trace.lines import (
    SCHEMA_VERSION,
    Answered,
    BatchLine,
    BatchRun,
    ProducedBatches,
    Taken,
    Written,
    from_lines,
    to_lines,
)

KINDS: tuple[type[msgspec.Struct], ...] = get_args(AnyEvent)
ROWS: dict[Any, tuple[Any, ...]] = {ProducedBatches: (BatchLine,), BatchRun: (Taken, Answered)}
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
    assert set(kind.__struct_encode_fields__) - {"at_us", "node"} <= named
    assert named >= {name for row in ROWS.get(kind, ()) for name in row._fields}
    assert f"version {SCHEMA_VERSION}" in PAGE


@pytest.mark.parametrize("kind", KINDS, ids=tag_of)
def test_an_event_is_read_back_as_it_was_written(kind: type[msgspec.Struct]) -> None:
    event = _filled(kind)

    line = to_lines([event])

    assert line.endswith(b"\n")
    assert line.startswith(b'{"kind":"%s",' % tag_of(kind).encode())
    assert from_lines(line) == [event]


def test_what_is_nested_is_read_back() -> None:
    follower = FollowerSeen(2, True, 5, 1, 20, 3)
    partition = PartitionSeen(
        1, 1, "orders", 0, 0, 0, 5, 5, 6, 6, (1, 2), 2, (follower,), 99, True, (OpenTransactionSeen(7, 0, 3, 4),)
    )
    member = MemberSeen("m", "app", "10.0.0.7", (("orders", 0),))
    group = GroupSeen(1, 1, "g", "classic", "Stable", 3, 10, (member,), (OffsetSeen("orders", 0, 5),))

    transaction = TransactionSeen(
        1, 1, "t", 7, 0, "PrepareCommit", 60, 50, 40, (("orders", 0),), (MarkerMissing("orders", 0, 2, "no answer"),)
    )

    assert from_lines(to_lines([partition, group, transaction])) == [partition, group, transaction]


def test_a_reader_passes_over_fields_that_it_does_not_know() -> None:
    line = b'{"kind":"trace_began","at_us":5,"node":2,"something":{"new":1}}\n'

    assert from_lines(line) == [TraceBegan(5, 2)]


def test_a_kind_that_is_unknown_is_an_error_and_not_another_kind() -> None:
    with pytest.raises(msgspec.ValidationError):
        from_lines(b'{"kind":"never_heard_of","at_us":5,"node":2}\n')


def _filled(kind: type[msgspec.Struct]) -> Any:
    """An event of this kind with something in every field."""
    samples: dict[Any, Any] = {int: 7, str: "ü\n", bool: True, tuple[int, ...]: (1, 2), str | None: None}
    fields = {field.name: samples.get(field.type, ()) for field in msgspec.structs.fields(kind)}
    return kind(**fields)
