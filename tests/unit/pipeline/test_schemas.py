"""The contract of the jobs agrees with those that write and read by it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import TimestampType

from chronik.pipeline import schemas, sweep
from chronik.pipeline.columns import batches
from chronik.pipeline.transforms.audit import OUTCOMES
from chronik.verify.books import runs
from chronik.verify.ledger import LedgerPlace


def test_the_reader_of_batches_gives_the_columns_that_are_promised() -> None:
    promised = [(each.name, each.dataType) for each in schemas.BATCHES]

    assert [name for name, _ in promised] == batches.SCHEMA.names
    for name, kind in promised:
        if kind != TimestampType():
            assert to_arrow_type(kind) == batches.SCHEMA.field(name).type, name


def test_what_verify_writes_down_are_columns_of_a_ledger_and_of_what_was_received() -> None:
    (sent,) = runs("t", [LedgerPlace(0, 0)], "number")
    (given,) = runs("t", [LedgerPlace(0, 0)], "position")

    assert {*sent, "producer"} == set(schemas.LEDGER.names)
    assert set(given) == set(schemas.RECEIVED.names)


def test_outcomes_and_reasons_are_those_of_the_sweep() -> None:
    assert tuple(OUTCOMES[number] for number in range(len(OUTCOMES))) == schemas.OUTCOMES
    assert len(schemas.REASONS) == sweep.LAYERS - sweep.MARKER
    assert schemas.REASONS[sweep.RETENTION - sweep.MARKER] == schemas.RETENTION
    assert schemas.REASONS[sweep.WAITING - sweep.MARKER] == schemas.WAITING


@pytest.mark.parametrize("kind", schemas.event_kinds())
def test_every_kind_of_event_has_columns(kind: str) -> None:
    assert schemas.event_schema(kind).names[:2] == ["at_us", "node"]


def test_events_keep_the_shape_they_have_in_the_trace() -> None:
    seen = schemas.event_schema("partition_seen")

    assert seen["followers"].dataType.simpleString().startswith("array<struct<node:bigint,is_in_sync:boolean")
    assert schemas.event_schema("refused")["topic"].dataType.simpleString() == "string"
