"""Records of topics to rows of tables: values read by their form, and what cannot be read set apart with its reason."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    StringType,
    StructField,
    StructType,
)

from chronik.pipeline.source import COLUMNS as RECORD_COLUMNS
from chronik.pipeline.source import HEADERS
from chronik.pipeline.tables.evolve import nullable
from chronik.pipeline.values.checks import BETWEEN_REASONS, REASON, Check, reason
from chronik.pipeline.values.forms import Form, Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

READ = "read_value"
CORRUPT = "_not_of_the_schema"
IS_BAD = "is_bad"
PARTITIONED_BY = ("topic", "date")
COLUMNS = ("topic", "date", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def judged(records: DataFrame, form: Form) -> DataFrame:
    """Records with their day, what their value was read as, and a `reason` where it could not be read."""
    dated = records.withColumn("date", _date())
    match form.kind:
        case Kind.RAW:
            return dated.withColumn(READ, F.col("value")).withColumn(REASON, F.lit(None).cast("string"))
        case Kind.JSON:
            return _json_read(dated, form)
        case Kind.CSV:
            said = {**_PERMISSIVE, "sep": form.delimiter}
            read = F.from_csv(_line(), _with_corrupt(form.schema_of_lines()).toDDL(), said)
            return _placed(_text_read(dated, read, _csv_rules(form.delimiter)), form)
        case Kind.AVRO:
            return _avro_read(dated, form)


def _date() -> Column:
    """Null outside the years 1 to 9999, as when a producer takes nanoseconds for milliseconds.

    Tables are partitioned by it, and most readers have no other years: one such record would close the table to them.
    """
    return F.when(F.year("timestamp").between(1, 9999), F.to_date("timestamp"))


def rows_to_stage(rows: DataFrame, form: Form) -> DataFrame:
    """All rows in the columns of the table, so that one write takes the good and the bad ones: it would cost a second
    reading of the topic to write them apart.

    `is_bad` tells them apart, and becomes the name of a folder. A bad row has no value in these columns: its bytes and
    its reason stand before its headers. Raw values are never bad, and have no such column.
    """
    table = [F.col(READ).alias("value") if name == "value" else F.col(name) for name in COLUMNS]
    if form.kind == Kind.RAW:
        return rows.select(*table)
    is_bad = F.col(REASON).isNotNull()
    kind = HEADERS.dataType
    kept_headers = [(REASON, F.col(REASON).cast("binary")), ("value", F.col("value"))]
    first = F.array(*(F.struct(F.lit(key).alias("key"), value.alias("value")) for key, value in kept_headers)).cast(
        kind
    )
    headers = F.when(is_bad, F.concat(first, F.coalesce("headers", F.array().cast(kind)))).otherwise(F.col("headers"))
    changed = {"value": F.when(~is_bad, F.col(READ)), "headers": headers}
    return rows.select(*(changed.get(name, F.col(name)).alias(name) for name in COLUMNS), is_bad.alias(IS_BAD))


def bad_schema() -> StructType:
    """The columns of staged bad rows that say something."""
    return StructType([field for field in _schema(BinaryType()).fields if field.name != "value"])


def rows_of_quarantine(staged: DataFrame) -> DataFrame:
    """Bad rows of `rows_to_stage` as they came, with their reason."""
    kept_headers = F.col("headers")
    found = {"value": kept_headers[1]["value"], "headers": F.slice(kept_headers, 3, F.size(kept_headers))}
    columns = [found.get(name, F.col(name)).alias(name) for name in COLUMNS]
    return staged.select(*columns, kept_headers[0]["value"].cast("string").alias(REASON))


def table_schema(form: Form) -> StructType:
    """Of the rows of a table."""
    return _schema(BinaryType() if form.schema is None else form.schema)


def quarantine_schema() -> StructType:
    """Of `rows_of_quarantine`."""
    return StructType([*_schema(BinaryType()).fields, StructField(REASON, StringType(), True)])


def _schema(value: DataType) -> StructType:
    kinds = {field.name: field.dataType for field in (*RECORD_COLUMNS, HEADERS)} | {"date": DateType(), "value": value}
    return StructType([StructField(name, nullable(kinds[name]), True) for name in COLUMNS])


def inferred_json(records: DataFrame) -> DataFrame:
    """One row, one text: the type of all values that are objects; null where there is none."""
    variant = records.select(F.try_parse_json(_text()).alias("variant"))
    objects = variant.where(F.schema_of_variant("variant").startswith("OBJECT"))
    return objects.select(F.schema_of_variant_agg("variant"))


def text_of_values(records: DataFrame) -> DataFrame:
    return records.where(F.col("value").isNotNull()).select(_text())


_PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def _text() -> Column:
    return F.col("value").cast("string")


def _line() -> Column:
    """Of CSV. The end of the line is not the end of its last field."""
    return F.rtrim(_text(), F.lit("\r\n"))


def _with_corrupt(schema: StructType | None) -> StructType:
    assert schema is not None
    return StructType([*schema.fields, StructField(CORRUPT, StringType(), True)])


def _text_read(dated: DataFrame, read: Column, rules: list[Check]) -> DataFrame:
    rows = dated.withColumn(READ, read).withColumn(REASON, reason([_utf8(), *rules]))
    # A tombstone stays one: without the `when` it would become a struct of nulls.
    return rows.withColumn(READ, F.when(F.col("value").isNotNull(), F.col(READ).dropFields(CORRUPT)))


def _utf8() -> Check:
    return Check("not UTF-8", lambda: F.col("value").isNull() | F.is_valid_utf8(_text()))


def _placed(rows: DataFrame, form: Form) -> DataFrame:
    """What was read from lines, where the table has it. A column that lines do not have is null."""
    assert form.schema is not None
    there = form.schema_of_lines().names
    columns = [
        (F.col(READ)[each.name] if each.name in there else F.lit(None)).cast(each.dataType).alias(each.name)
        for each in form.schema.fields
    ]
    return rows.withColumn(READ, F.when(F.col(READ).isNotNull(), F.struct(*columns)))


def _fits() -> Column:
    return F.col("value").isNull() | (F.col(READ).isNotNull() & F.col(READ)[CORRUPT].isNull())


# Names that no value can have guessed, so that it cannot pretend to end where it does not.
_VALUES, _IS_END = (f"{name}_{secrets.token_hex(16)}" for name in ("values", "is_end"))


def _json_read(dated: DataFrame, form: Form) -> DataFrame:
    """Spark reads the first JSON value of a text, and looks at nothing behind it. So a value is read as the first
    element of a list whose second and last element is our own: where anything else stands in the text, the list is
    another one, or there is none. Only what is bad is read again, to say why."""
    assert form.schema is not None
    element = StructType([*form.schema.fields, StructField(_IS_END, BooleanType(), True)])
    whole = _with_corrupt(StructType([StructField(_VALUES, ArrayType(element, True), True)]))
    before, behind = f'{{"{_VALUES}":[', f'\n,{{"{_IS_END}":true}}]}}'
    read = F.from_json(F.concat(F.lit(before), _text(), F.lit(behind)), whole, _PERMISSIVE)
    values = F.col(READ)[_VALUES]
    value = F.get(values, 0)
    is_alone = (F.size(values) == 2) & F.get(values, 1)[_IS_END] & value.isNotNull() & F.col(READ)[CORRUPT].isNull()
    is_good = F.col("value").isNull() | F.coalesce(is_alone, F.lit(False))
    rows = dated.withColumn(READ, read).withColumn(REASON, F.nullif(_json_reasons(is_good, form), F.lit("")))
    return rows.withColumn(READ, F.when(F.col("value").isNotNull() & is_good, value.dropFields(_IS_END)))


def _json_reasons(is_good: Column, form: Form) -> Column:
    first = F.from_json(_text(), _with_corrupt(form.schema), _PERMISSIVE)
    why = (
        F.when(is_good, None)
        .when(first.isNotNull() & first[CORRUPT].isNull(), F.lit("more than one JSON value"))
        .when(F.try_parse_json(_text()).isNotNull(), F.lit("JSON that is not of the schema"))
        .otherwise(F.lit("not JSON"))
    )
    return F.concat_ws(BETWEEN_REASONS, reason([_utf8()]), why)


def _csv_rules(delimiter: str) -> list[Check]:
    # A field between quotes may have line breaks in it. Possessive: else Java's stack is as deep as a field is long.
    between = re.escape(delimiter)
    quoted = rf'(?s)(^|{between})"(?:[^"\\]|\\.|"")*+"(?={between}|$)'

    def is_one_line() -> Column:
        bare = F.regexp_replace(_line(), quoted, "$1")
        return F.col("value").isNull() | ~_line().rlike("[\r\n]") | ~bare.rlike("[\r\n]")

    return [
        Check("CSV that is not of the schema", _fits),
        Check("more than one line of CSV", lambda: ~_fits() | is_one_line()),
    ]


def _avro_read(dated: DataFrame, form: Form) -> DataFrame:
    assert form.schema is not None
    out = StructType(
        [*dated.schema.fields, StructField(READ, form.schema, True), StructField(REASON, StringType(), True)]
    )
    return dated.mapInArrow(_AvroTask(form, out), out)


class _AvroTask:
    """What a task does with each Arrow batch."""

    def __init__(self, form: Form, out: StructType) -> None:
        self._form = form
        self._out = out

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from chronik.pipeline.values.avro import MalformedAvro

        assert self._form.avro is not None
        decode = self._form.avro.decoder(self._form.schema_id)
        schema = to_arrow_schema(self._out, timezone="UTC")
        for batch in batches:
            found: list[object] = []
            reasons: list[str | None] = []
            for value in batch.column("value").to_pylist():
                try:
                    found.append(None if value is None else decode(value))
                    reasons.append(None)
                except MalformedAvro as problem:
                    found.append(None)
                    reasons.append(str(problem))
            read = [pa.array(found, schema.field(READ).type), pa.array(reasons, pa.string())]
            columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=False)]
            yield pa.RecordBatch.from_arrays([*columns, *read], schema=schema)
