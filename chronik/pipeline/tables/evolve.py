"""How a table's columns may change while it is filled: new ones come, none goes, none changes its type. Pure."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

# A value of an earlier type of a row fits into each later one.
_WIDENING = ((ByteType, ShortType, IntegerType, LongType), (FloatType, DoubleType))


class OtherSchema(Exception):
    """What is to be written does not fit into the table; the message says which column and why."""


def evolved(known: StructType, wanted: StructType, inside: str = "", *, is_lenient: bool = False) -> StructType:
    """The columns of a table that is to take `wanted` as well. Raises OtherSchema, unless the table is to have its way.

    A column that is not wanted any more stays, and is null from then on.
    """
    names = {field.name.lower(): field.name for field in known.fields}
    wishes = {field.name: field for field in wanted.fields}
    for name in list(wishes):
        if name not in names.values() and name.lower() in names:
            if is_lenient:
                del wishes[name]
                continue
            raise OtherSchema(
                f"the columns {inside}{names[name.lower()]} and {inside}{name} differ only in small and capital letters"
            )
    fields = []
    for field in known.fields:
        wish = wishes.pop(field.name, None)
        kind = (
            field.dataType
            if wish is None
            else _evolved_type(field.dataType, wish.dataType, inside + field.name, is_lenient)
        )
        fields.append(StructField(field.name, kind, True))
    return StructType(fields + [StructField(field.name, nullable(field.dataType), True) for field in wishes.values()])


def _evolved_type(known: DataType, wanted: DataType, name: str, is_lenient: bool) -> DataType:
    match known, wanted:
        case StructType(), StructType():
            return evolved(known, wanted, f"{name}.", is_lenient=is_lenient)
        case ArrayType(), ArrayType():
            return ArrayType(_evolved_type(known.elementType, wanted.elementType, f"{name}[]", is_lenient), True)
        case MapType(), MapType() if known.keyType == wanted.keyType:
            return MapType(
                known.keyType, _evolved_type(known.valueType, wanted.valueType, f"{name}{{}}", is_lenient), True
            )
    if known == wanted or _fits(wanted, known) or is_lenient:
        return known
    raise OtherSchema(f"the table has column {name} as {known.simpleString()}, not {wanted.simpleString()}")


def _fits(narrow: DataType, wide: DataType) -> bool:
    for row in _WIDENING:
        if type(narrow) in row and type(wide) in row:
            return row.index(type(narrow)) <= row.index(type(wide))
    return False


def nullable(kind: DataType) -> DataType:
    """The same type with null allowed everywhere: what a later record lacks is null."""
    match kind:
        case StructType():
            return StructType([StructField(each.name, nullable(each.dataType), True) for each in kind.fields])
        case ArrayType():
            return ArrayType(nullable(kind.elementType), True)
        case MapType():
            return MapType(kind.keyType, nullable(kind.valueType), True)
    return kind


def check_names(schema: StructType, inside: str = "") -> None:
    """Raises OtherSchema for names that differ only in case: most readers of tables cannot tell them apart."""
    seen: dict[str, str] = {}
    for field in schema.fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise OtherSchema(
                f"the columns {inside}{other} and {inside}{field.name} differ only in small and capital letters"
            )
        if isinstance(field.dataType, StructType):
            check_names(field.dataType, f"{inside}{field.name}.")


def without_twins(kind: DataType) -> DataType:
    """An inferred type, without fields that differ from an earlier one only in case."""
    match kind:
        case StructType():
            kept = {field.name.lower(): field for field in reversed(kind.fields)}
            fields = [field for field in kind.fields if kept[field.name.lower()] is field]
            return StructType([StructField(each.name, without_twins(each.dataType), True) for each in fields])
        case ArrayType():
            return ArrayType(without_twins(kind.elementType), True)
    return kind
