"""What all jobs of `chronik pipeline` share: their options, the Spark session they run in, and their errors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chronik.cli.values import parse_pairs
from chronik.client.connecting import parse_addresses, written
from chronik.client.errors import ChronikError
from chronik.client.security import in_force
from chronik.client.security_settings import kafka_settings, pairs_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "2g"
EXIT_INTERRUPTED = 130
# What a transaction took back is no record. The source itself leaves that open, as Spark's connector does.
COMMITTED_ONLY = {"kafka.isolation.level": "read_committed"}

Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="CHRONIK_SPARK_MASTER",
        metavar="URL",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://...",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        envvar="SPARK_REMOTE",
        metavar="URL",
        help="A Spark Connect server to run in: sc://HOST:PORT. Replaces --master.",
    ),
]
DriverMemory = Annotated[
    str, typer.Option("--driver-memory", metavar="SIZE", help="Of the Java process here, such as 512m or 4g.")
]
SparkSettings = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="KEY=VALUE", help="Any setting of Spark's, such as spark.executor.memory=4g."),
]
KafkaSettings = Annotated[
    list[str] | None,
    typer.Option("--kafka", metavar="KEY=VALUE", help="A client's setting, such as security.protocol=SASL_SSL."),
]


@contextmanager
def spark_session(
    job: str,
    master: str = DEFAULT_MASTER,
    memory: str = DEFAULT_MEMORY,
    settings: Sequence[str] | None = None,
    remote: str | None = None,
) -> Iterator[SparkSession]:
    """A session for one job, with its errors in plain words. Raises ChronikError where Spark cannot run."""
    with spark_errors():
        pairs = parse_pairs("--spark", settings or ())
        from chronik.pipeline.quiet_java import quiet_java
        from chronik.pipeline.session import own_scratch

        with quiet_java(os.path.join(own_scratch(), "java.log"), (ChronikError, KeyboardInterrupt)):
            spark = _opened(f"chronik {job}", master, memory, pairs, remote or None)
        try:
            yield spark
        finally:
            spark.stop()


def _opened(name: str, master: str, memory: str, settings: Mapping[str, str], remote: str | None) -> SparkSession:
    from chronik.pipeline.session import SparkNotReady, open_session, with_retries

    try:
        where = with_retries(master) if remote is None else master
        return open_session(name, where, memory, settings, remote=remote)
    except SparkNotReady as problem:
        raise ChronikError(str(problem)) from problem


@contextmanager
def spark_errors() -> Iterator[None]:
    """What a job cannot do becomes ChronikError; Ctrl-C ends it quietly, for it can be run again from where it was."""
    try:
        from chronik.pipeline.problems import JobCannotRun, plain_errors
    except ImportError as problem:
        raise _not_installed(problem) from problem
    try:
        with plain_errors():
            yield
    except JobCannotRun as problem:
        raise ChronikError(problem.message, problem.hint) from problem
    except ModuleNotFoundError as problem:
        raise _not_installed(problem) from problem
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def kafka_options(bootstrap: str, settings: Sequence[str] | None = None) -> dict[str, str]:
    """The options of `format("chronik")` that say how to reach the cluster, and how this program is let in there."""
    said = kafka_settings(in_force()) | pairs_given(settings or ())
    return {"kafka.bootstrap.servers": written(parse_addresses(bootstrap))} | {
        f"kafka.{name}": value for name, value in said.items()
    }


def _not_installed(problem: ImportError) -> ChronikError:
    return ChronikError(
        f"the data pipeline needs {problem.name}, which is not installed", "pip install 'chronik[spark]'"
    )
