"""What is said when Java is missing or too old: Spark itself would fail in words nobody understands."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.pipeline.session import SparkNotReady, connect_address, java_version, open_session


def java_that_says(folder: Path, words: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
    program.chmod(0o755)
    return folder


def test_no_java_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(
        SparkNotReady, match=r"there is no Java in JAVA_HOME.*Spark needs Java 17 or newer: .apt install"
    ):
        java_version()


@pytest.mark.parametrize(
    ("words", "version"), [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21" 2023-09-19', 21)]
)
def test_a_java_that_is_new_enough_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, version: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, words)))

    assert java_version() == version


@pytest.mark.parametrize(("words", "said"), [('java version "1.8.0_402"', "is Java 8"), ("hello", "does not say")])
def test_a_java_that_will_not_do_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, words)))

    with pytest.raises(SparkNotReady, match=said):
        java_version()


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("sc://10.0.0.5", ("10.0.0.5", 15002)),
        ("sc://spark.example:443/;use_ssl=true;token=x", ("spark.example", 443)),
        ("sc://[::1]:7/", ("::1", 7)),
    ],
)
def test_the_address_of_a_connect_server_is_read_as_spark_reads_it(remote: str, address: tuple[str, int]) -> None:
    assert connect_address(remote) == address


@pytest.mark.parametrize(
    "remote", ["local", "local[2]", "spark://h:7077", "sc://", "sc:h", "sc://h:port", "h:15002", ""]
)
def test_what_is_no_address_of_a_connect_server_is_refused(remote: str) -> None:
    with pytest.raises(SparkNotReady, match=r"is not the address of a Spark Connect server: that is sc://HOST:PORT"):
        connect_address(remote)


def test_spark_runs_at_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")

    with pytest.raises(
        SparkNotReady, match=r"cannot run at yarn and through sc://127\.0\.0\.1:1: leave out one of the two"
    ):
        open_session(master="yarn")


def test_a_connect_server_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc", reason="grpc is not installed: pip install 'chronik[connect]'")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")

    with pytest.raises(SparkNotReady, match=r"no Spark Connect server answers at 127\.0\.0\.1:1: Connection refused"):
        open_session()
