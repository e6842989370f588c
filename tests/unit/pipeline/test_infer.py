"""Schemas from values."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from pyspark.sql import types as T

from chronik.pipeline.values.infer import of_lines, of_variants


def struct(**columns: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind, True) for name, kind in columns.items()])


def test_numbers_are_long_or_double_and_what_differs_is_text() -> None:
    told = struct(whole=T.LongType(), fraction=T.DecimalType(3, 1), huge=T.DecimalType(30, 0), mixed=T.VariantType())

    assert of_variants("OBJECT<...>", lambda words: told) == struct(
        whole=T.LongType(), fraction=T.DoubleType(), huge=T.DoubleType(), mixed=T.StringType()
    )


def test_what_was_only_ever_null_or_empty_has_no_column_yet() -> None:
    told = struct(a=T.NullType(), b=T.ArrayType(T.NullType()), c=struct(), d=struct(e=T.NullType()), f=T.LongType())

    assert of_variants("OBJECT<...>", lambda words: told) == struct(f=T.LongType())


def test_objects_are_structs_also_where_a_name_looks_like_one() -> None:
    heard: list[str] = []

    def parse(words: str) -> T.DataType:
        heard.append(words)
        return struct(a=T.LongType())

    of_variants("OBJECT<a: OBJECT<b: BIGINT>, `OBJECT<``x`: STRING>", parse)

    assert heard == ["STRUCT<a: STRUCT<b: BIGINT>, `OBJECT<``x`: STRING>"]


@pytest.mark.parametrize("told", [None, T.StringType(), struct(), struct(a=T.NullType())])
def test_where_there_is_no_object_there_is_no_schema(told: T.DataType | None) -> None:
    assert of_variants(None if told is None else "told", lambda words: told) is None


def test_csv_has_the_columns_that_most_lines_have() -> None:
    lines = ["1;2.5;x;true", "-2;3;;FALSE", "broken", '3;1e3;"a;b";true', ""]

    assert of_lines(lines, ";") == struct(c0=T.LongType(), c1=T.DoubleType(), c2=T.StringType(), c3=T.BooleanType())


def test_no_lines_have_no_columns() -> None:
    assert of_lines([], ",") is None
    assert of_lines([""], ",") is None
