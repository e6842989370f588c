"""What is said when Java is missing or too old: Spark itself would fail in words nobody understands."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.pipeline.session import SparkNotReady, java_version


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
