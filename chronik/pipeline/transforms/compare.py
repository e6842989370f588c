"""Many runs and audits as one table: each a row, then those with the same versions and settings together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERIFY, AUDIT = "verify", "audit"
# What the JSON of `chronik verify` (docs/verify.md) and of an audit (docs/pipeline-audit.md) has.
REPORT = """
    run bigint, started_at string, verdict string, cause string, produced bigint, acknowledged bigint, consumed bigint,
    expected bigint, found bigint, lost bigint, duplicated bigint, reordered bigint, gaps bigint, unexpected bigint,
    explained bigint, imbalance double, produced_per_second double, consumed_per_second double,
    first_message_seconds double, seconds double, replication int, versions map<string, string>,
    settings struct<messages: bigint, partitions: int, acks: string, client: string, max_poll_records: int,
        value_bytes: int, is_idempotent: boolean, is_assigned: boolean, spread: string, note: string>
"""
# What runs are distinguished by, unless the user says otherwise.
BY = (
    *("kind", "version", "client", "client_version", "acks", "idempotent", "messages", "partitions", "replication"),
    *("value_bytes", "max_poll_records", "spread", "assigned"),
)


def runs(kept: DataFrame) -> DataFrame:
    """`source` and `report` (JSON) to a row for each run or audit."""
    reports = kept.withColumn("reports", F.from_json("report", REPORT)).select("source", "reports.*")
    is_audit = F.col("produced").isNull()
    return reports.select(
        "source",
        F.when(is_audit, AUDIT).otherwise(VERIFY).alias("kind"),
        "run",
        "started_at",
        F.col("versions")["cluster"].alias("version"),
        F.col("settings.client").alias("client"),
        F.col("versions")["client"].alias("client_version"),
        F.col("settings.acks").alias("acks"),
        F.col("settings.is_idempotent").alias("idempotent"),
        F.coalesce(F.col("settings.messages"), F.col("expected")).alias("messages"),
        F.col("settings.partitions").alias("partitions"),
        "replication",
        F.col("settings.value_bytes").alias("value_bytes"),
        F.col("settings.max_poll_records").alias("max_poll_records"),
        F.col("settings.spread").alias("spread"),
        F.col("settings.is_assigned").alias("assigned"),
        F.col("settings.note").alias("note"),
        "verdict",
        "cause",
        F.coalesce("acknowledged", "expected").alias("acknowledged"),
        F.coalesce("consumed", "found").alias("arrived"),
        *("lost", "duplicated", "reordered", "gaps", "unexpected", "imbalance"),
        *("produced_per_second", "consumed_per_second", "first_message_seconds", "seconds"),
    )


def comparison(runs: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """One row for all runs that are the same in `by`: how they went, worst first."""
    is_well = F.when(F.col("kind") == AUDIT, F.col("lost") == 0).otherwise(F.col("verdict") == "pass")
    return (
        runs.groupBy(*by)
        .agg(
            F.count("*").alias("runs"),
            F.sum(is_well.cast("int")).alias("passed"),
            F.sum("acknowledged").alias("acknowledged"),
            F.sum("arrived").alias("arrived"),
            *(F.sum(F.coalesce(name, F.lit(0))).alias(name) for name in ("lost", "duplicated", "reordered")),
            F.median("produced_per_second").alias("produced_per_second"),
            F.median("consumed_per_second").alias("consumed_per_second"),
            F.median("first_message_seconds").alias("first_message_seconds"),
            F.min("started_at").alias("first_at"),
            F.max("started_at").alias("last_at"),
            F.array_sort(F.collect_set("cause")).alias("causes"),
        )
        .orderBy(F.desc("lost"), F.col("passed") / F.col("runs"), *(F.col(name) for name in by))
    )
