"""How a Java program of the tests is started: the jars that setup.sh fetched, and flags for a short life."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

CLIENTS = Path(__file__).parent
CACHE = Path(os.environ.get("CHRONIK_CLIENT_CACHE", CLIENTS.parents[1] / ".cache"))
# The programs live for seconds: a simple collector and only the first compiler make them start sooner.
SHORT_LIFE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def jars_of(name: str) -> Path:
    """Where the jars of `java/<name>/pom.xml` are, if setup.sh could fetch them. The pom alone knows the version."""
    project = ElementTree.parse(CLIENTS / "java" / name / "pom.xml").getroot()
    version = project.findtext("{*}version")
    return CACHE / f"kafka-{name}-{version}"


def java_command(jars: Path, program: str, *flags: str, folder: Path | None = None) -> list[str]:
    """The command up to the program's own arguments; `folder` holds classes of our own."""
    class_path = f"{jars}/*" if folder is None else f"{jars}/*:{folder}"
    return ["java", *SHORT_LIFE, *flags, "-cp", class_path, program]
