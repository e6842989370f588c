"""How a table's columns may change: new ones come, none goes, none changes its type."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from chronik.pipeline.tables.evolve import OtherSchema, check_names, evolved, nullable, without_twins


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in columns.items()])


def test_new_columns_come_last_and_none_goes() -> None:
    assert evolved(struct(a=LongType(), b=StringType()), struct(c=LongType(), a=LongType())) == struct(
        a=LongType(), b=StringType(), c=LongType()
    )


def test_columns_come_within_structs_lists_and_maps_too() -> None:
    def nested(inner: StructType) -> StructType:
        return struct(s=inner, l=ArrayType(inner), m=MapType(StringType(), inner))

    small, large = nested(struct(x=LongType())), nested(struct(x=LongType(), y=LongType()))

    assert evolved(small, large) == large
    assert evolved(large, small) == large


def test_a_narrower_number_is_written_as_the_table_has_it() -> None:
    known = struct(a=LongType(), b=DoubleType())

    assert evolved(known, struct(a=IntegerType(), b=FloatType())) == known


@pytest.mark.parametrize(
    ("known", "wanted"), [(IntegerType(), LongType()), (LongType(), StringType()), (StringType(), struct(a=LongType()))]
)
def test_a_column_that_changes_its_type_is_refused_by_name(known: DataType, wanted: DataType) -> None:
    with pytest.raises(OtherSchema, match=r"the table has column value\.amount as"):
        evolved(struct(value=struct(amount=known)), struct(value=struct(amount=wanted)))


def test_where_the_table_is_to_have_its_way_the_type_stays_and_the_rest_is_added() -> None:
    assert evolved(struct(a=LongType()), struct(a=StringType(), A=LongType(), b=LongType()), is_lenient=True) == struct(
        a=LongType(), b=LongType()
    )


def test_names_that_differ_only_in_case_are_refused_or_left_out() -> None:
    twins = struct(a=LongType(), A=StringType())

    with pytest.raises(OtherSchema, match="small and capital letters"):
        check_names(struct(inner=twins))
    with pytest.raises(OtherSchema, match="small and capital letters"):
        evolved(struct(a=LongType()), struct(A=LongType()))
    assert without_twins(struct(inner=ArrayType(twins))) == struct(inner=ArrayType(struct(a=LongType())))


def test_null_is_allowed_everywhere() -> None:
    strict = StructType([StructField("a", ArrayType(LongType(), False), False)])

    assert nullable(strict) == struct(a=ArrayType(LongType(), True))
