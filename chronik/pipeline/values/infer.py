"""The schema of values, from the values themselves. Pure: what was asked of Spark comes in as text."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence

from pyspark.sql import types as T

from chronik.pipeline.tables.evolve import without_twins

# Between backticks anything may stand.
_OBJECT = re.compile(r"`(?:[^`]|``)*`|\bOBJECT<")
_LONG_DIGITS = 18
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def of_variants(words: str | None, parse: Callable[[str], T.DataType]) -> T.StructType | None:
    """The columns for JSON values of this type, as `schema_of_variant_agg` says it; None if there are none.

    Numbers are bigint or double; where values differ in kind the column is their text; a field that was only ever
    null, or an empty list or object, has no type yet and no column.
    """
    if words is None:
        return None
    ddl = _OBJECT.sub(lambda found: "STRUCT<" if found[0] == "OBJECT<" else found[0], words)
    kind = _column_type(parse(ddl))
    if not isinstance(kind, T.StructType):
        return None
    plain = without_twins(kind)
    assert isinstance(plain, T.StructType)
    return plain


def _column_type(kind: T.DataType) -> T.DataType | None:
    match kind:
        case T.StructType():
            known = [(field.name, _column_type(field.dataType)) for field in kind.fields]
            fields = [T.StructField(name, each, True) for name, each in known if each is not None]
            return T.StructType(fields) if fields else None
        case T.ArrayType():
            element = _column_type(kind.elementType)
            return None if element is None else T.ArrayType(element, True)
        case T.NullType():
            return None
        case T.DecimalType():
            return T.LongType() if kind.scale == 0 and kind.precision <= _LONG_DIGITS else T.DoubleType()
        case T.VariantType():
            return T.StringType()
    return kind


def of_lines(lines: Sequence[str], delimiter: str) -> T.StructType | None:
    """Columns c0, c1, ... for CSV: as many as most lines have, each of the narrowest type that all of those fit."""
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    if not rows:
        return None
    widths = [len(row) for row in rows]
    width = max(sorted(set(widths)), key=widths.count)
    columns = zip(*(row for row in rows if len(row) == width), strict=True)
    return T.StructType([T.StructField(f"c{number}", _narrowest(cells), True) for number, cells in enumerate(columns)])


def _narrowest(cells: Sequence[str]) -> T.DataType:
    filled = [cell.strip() for cell in cells if cell.strip()]
    if filled and all(_WHOLE.fullmatch(cell) for cell in filled):
        return T.LongType()
    if filled and all(_NUMBER.fullmatch(cell) for cell in filled):
        return T.DoubleType()
    if filled and all(cell.lower() in ("true", "false") for cell in filled):
        return T.BooleanType()
    return T.StringType()
