"""The Java client against the node under test: each check of java/*.java is a test here."""

from __future__ import annotations

import subprocess

import pytest

from tests.clients.checks import Outcomes, names_in
from tests.clients.jvm import CLIENTS, jars_of, java_command
from tests.clients.support import needs

needs("java client")

SOURCES = sorted((CLIENTS / "java").glob("*.java"))


@pytest.fixture(scope="module")
def outcomes(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    classes = tmp_path_factory.mktemp("classes")
    compile_all = ["javac", "-d", str(classes), "-cp", f"{jars_of('client')}/*", *map(str, SOURCES)]
    subprocess.run(compile_all, check=True)
    return Outcomes([*java_command(jars_of("client"), "Checks", folder=classes), bootstrap])


@pytest.mark.parametrize("check", names_in(*SOURCES))
def test_java_client(outcomes: Outcomes, check: str) -> None:
    outcomes.must_hold(check)
