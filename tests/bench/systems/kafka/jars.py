"""Where Kafka's jars are, how they are brought from Maven Central, and how its programs are started.

pom.xml beside this file alone knows the version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

POM = Path(__file__).parent / "pom.xml"
ROOT = Path(__file__).resolve().parents[4]
CACHE = Path(os.environ.get("CHRONIK_CLIENT_CACHE", ROOT / ".cache"))
FETCH_TIMEOUT_S = 900.0
# What Kafka's own start script gives a server (bin/kafka-server-start.sh, bin/kafka-run-class.sh of 4.x).
SERVER_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# A program that lives for a second: a simple collector and only the first compiler let it start sooner.
SHORT_LIFE_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class NoKafka(Exception):
    """Kafka cannot be had on this machine; the message says what is missing."""


def version() -> str:
    number = ElementTree.parse(POM).getroot().findtext("{*}version")
    assert number is not None, f"{POM} has no version"
    return number


def folder() -> Path:
    return CACHE / f"kafka-peer-{version()}"


def bring() -> Path:
    """The folder with the jars, fetched if they are not there. Raises NoKafka."""
    if shutil.which("java") is None:
        raise NoKafka("Apache Kafka needs Java 17 or newer, and there is no `java` here")
    jars = folder()
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None:
        raise NoKafka("Apache Kafka comes from Maven Central, and there is no `mvn` here")
    part = jars.with_name(f"{jars.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={part}"]
    command = ["mvn", "-q", "-B", "-f", str(POM), *goal]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as problem:
        raise NoKafka(f"Maven did not bring Apache Kafka within {FETCH_TIMEOUT_S:.0f} s") from problem
    if done.returncode != 0:
        raise NoKafka(f"Maven could not bring Apache Kafka:\n{(done.stdout + done.stderr)[-2000:]}")
    part.rename(jars)  # a half one is done again
    return jars


def command(program: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    """How a Java program of these jars is started. It dies with us, where the system can promise that."""
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    return [*guard, "java", *flags, "-cp", f"{folder()}/*", program, *arguments]
