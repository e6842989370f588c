"""What the values of records are: raw bytes, or JSON, CSV or Avro of a schema that is given or inferred."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from chronik.pipeline.problems import JobCannotRun
from chronik.pipeline.tables.evolve import OtherSchema, check_names, nullable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from chronik.pipeline.values.avro import AvroType


class Kind(StrEnum):
    RAW = "raw"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"


@dataclass(frozen=True)
class Form:
    """How to read a value."""

    kind: Kind = Kind.RAW
    schema: StructType | None = None
    """Of the value, as a table has it. None for raw values, and for those whose schema is not known yet."""
    avro: AvroType | None = None
    """The schema that Avro values were written with."""
    schema_id: int | None = None
    """Avro values begin with Confluent's five bytes, of this schema."""
    delimiter: str = ","
    """Between the fields of CSV."""
    is_inferred: bool = False
    line: tuple[str, ...] = ()
    """The columns of a line of CSV, in its order. A table may have others, and in another order. None: as the table."""

    def with_schema(self, schema: StructType) -> Form:
        return replace(self, schema=schema)

    def schema_of_lines(self) -> StructType:
        """CSV has no names: what a field means is its place in the line."""
        from pyspark.sql.types import StructType

        assert self.schema is not None
        return StructType([self.schema[name] for name in self.line]) if self.line else self.schema

    def said(self) -> dict[str, object]:
        """All that decides which values can be read, to be kept as JSON and compared with what is said later."""
        return {
            "kind": str(self.kind),
            "schema": None if self.schema is None or self.is_inferred else self.schema.jsonValue(),
            "avro": None if self.avro is None else self.avro.text,
            "schema_id": self.schema_id,
            "delimiter": self.delimiter,
            "is_inferred": self.is_inferred,
        }


def read_form(
    kind: Kind,
    schema_file: Path | None = None,
    *,
    is_inferred: bool = False,
    schema_id: int | None = None,
    delimiter: str = ",",
) -> Form:
    """What a user said, checked. Raises JobCannotRun."""
    if kind == Kind.RAW:
        if schema_file is not None or is_inferred:
            raise JobCannotRun("raw values have no schema", "say which they have: --value json, csv or avro")
        return Form()
    if kind == Kind.AVRO and is_inferred:
        raise JobCannotRun("Avro values do not say their schema", "give the schema file: --schema FILE.avsc")
    if (schema_file is None) == (not is_inferred):
        raise JobCannotRun(f"{kind} values need a schema", "give --schema FILE or --infer, one of them")
    if len(delimiter) != 1:
        raise JobCannotRun(f"the delimiter {delimiter!r} is not one character")
    form = Form(kind, schema_id=schema_id, delimiter=delimiter, is_inferred=is_inferred)
    if schema_file is None:
        return form
    try:
        text = schema_file.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise JobCannotRun(f"{schema_file} is not text") from problem
    return _avro(form, text, schema_file) if kind == Kind.AVRO else _columns(form, text, schema_file)


def _avro(form: Form, text: str, file: Path) -> Form:
    from chronik.pipeline.values.avro import BadSchema, parse_schema

    try:
        avro = parse_schema(text)
        columns = avro.columns()
        check_names(columns)
    except (BadSchema, OtherSchema) as problem:
        raise JobCannotRun(f"{file}: {problem}") from problem
    return replace(form, avro=avro, schema=columns)


def _columns(form: Form, text: str, file: Path) -> Form:
    """As Spark writes schemas: `id bigint, name string`, or its JSON."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    try:
        if text.lstrip().startswith("{"):
            schema = StructType.fromJson(json.loads(text))
        else:
            schema = DataType.fromDDL(" ".join(text.split()))
    except (PySparkException, ValueError, KeyError, TypeError) as problem:
        raise JobCannotRun(
            f"{file} is not a schema ({' '.join(str(problem).split())[:120]})",
            "write it as `id bigint, name string`, or as Spark's JSON",
        ) from problem
    if not isinstance(schema, StructType) or not schema.fields:
        raise JobCannotRun(f"{file} names no columns", "write it as `id bigint, name string`")
    try:
        check_names(schema)
    except OtherSchema as problem:
        raise JobCannotRun(f"{file}: {problem}") from problem
    line = tuple(schema.names) if form.kind == Kind.CSV else ()
    return replace(form, schema=nullable(schema), line=line)
