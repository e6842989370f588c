"""Rules about rows, with names: a row that breaks one is split off with the names of what it breaks, never dropped.

    rules = [present("topic"), not_negative("offset"), Check("ends too early", lambda: col("end") >= col("start"))]
    good, bad = split(frame, rules)          # bad has one column more: reason

A rule holds or it does not: where its column comes to null, it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "reason"
BETWEEN_REASONS = "; "


@dataclass(frozen=True)
class Check:
    """What is said of a row that breaks it, and when it holds. A Column can only be made while there is a session."""

    name: str
    holds: Callable[[], Column]


def present(column: str) -> Check:
    from pyspark.sql import functions as F

    return Check(f"no {column}", lambda: F.col(column).isNotNull())


def not_negative(column: str) -> Check:
    from pyspark.sql import functions as F

    return Check(f"{column} is negative", lambda: F.col(column).isNull() | (F.col(column) >= 0))


def one_of(column: str, values: Sequence[object]) -> Check:
    from pyspark.sql import functions as F

    known = ", ".join(map(str, values))
    return Check(f"{column} is none of {known}", lambda: F.col(column).isNull() | F.col(column).isin(*values))


def reason(checks: Sequence[Check]) -> Column:
    """The names of the rules that a row breaks, as one text; null for a good row."""
    from pyspark.sql import functions as F

    broken = [F.when(F.coalesce(each.holds(), F.lit(False)), None).otherwise(F.lit(each.name)) for each in checks]
    return F.nullif(F.concat_ws(BETWEEN_REASONS, *broken), F.lit(""))


def judged(frame: DataFrame, checks: Sequence[Check]) -> DataFrame:
    """All rows, with a column `reason` that is null for the good ones."""
    return frame.withColumn(REASON, reason(checks))


def split(frame: DataFrame, checks: Sequence[Check]) -> tuple[DataFrame, DataFrame]:
    """The rows that keep all rules, and the others with their reason. Together they are all rows."""
    from pyspark.sql import functions as F

    rows = judged(frame, checks)
    return rows.where(F.col(REASON).isNull()).drop(REASON), rows.where(F.col(REASON).isNotNull())
