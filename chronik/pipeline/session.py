"""A Spark session with the settings that save trouble, and clear words where Java or PySpark is missing."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
LOOPBACK = "127.0.0.1"
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""


class SparkNotReady(Exception):
    """Something that Spark needs is not there; the message says what, and how to get it."""


def java_version() -> int:
    """The major version of the Java that Spark would start. Raises SparkNotReady."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"Spark needs Java {JAVA_MIN} or newer: `apt install openjdk-17-jre-headless`, or set JAVA_HOME"
    if java is None or not os.path.exists(java):
        raise SparkNotReady(f"there is no Java{f' in JAVA_HOME ({home})' if home else ''}. {advice}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if found is None:
        raise SparkNotReady(f"{java} does not say its version. {advice}")
    if int(found[1]) < JAVA_MIN:
        raise SparkNotReady(f"{java} is Java {found[1]}. {advice}")
    return int(found[1])


def open_session(
    name: str = "chronik",
    master: str = "local[*]",
    memory: str = "4g",
    settings: Mapping[str, str] | None = None,
    scratch_dir: str | None = None,
) -> SparkSession:
    """A session that knows the format `chronik`. The same process has one at a time. Raises SparkNotReady.

    `scratch_dir` must stay as long as the process; without it there is one that goes with the process.
    """
    java_version()
    try:
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise SparkNotReady(f"PySpark is not installed ({problem}): pip install 'chronik[spark]'") from problem
    from chronik.pipeline.source import ChronikDataSource

    scratch = scratch_dir or own_scratch()
    # Tasks must run the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", _quick_python(scratch) if master.startswith("local") else sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_defaults(master, memory, scratch), **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if scratch_dir is None:
        _remove_with_java(spark, scratch)
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(ChronikDataSource)
    return spark


@cache
def own_scratch() -> str:
    """A folder for all that Spark leaves lying about, removed at the end. One for the life of this process: Java is
    started once, and keeps what it was started with."""
    folder = tempfile.mkdtemp(prefix="chronik-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_with_java(spark: SparkSession, folder: str) -> None:
    """Java outlives us by a moment, and writes until it ends: it removes what it has put there since, or all of it
    where we were killed."""
    java = spark.sparkContext._jvm
    assert java is not None
    java.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(java.java.io.File(folder))


def _quick_python(scratch: str) -> str:
    """This Python, importing PySpark from where it is installed.

    Spark puts a zip of it first in the path of every Python process it starts. What is in a zip is compiled anew each
    time: that is two thirds of such a process's start, and a busy machine then misses the ten seconds that Spark waits.
    """
    script = os.path.join(scratch, "python")
    path, python = shlex.quote(os.environ.get("PYTHONPATH", "")), shlex.quote(sys.executable)
    with open(script, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nPYTHONPATH={path} exec {python} "$@"\n')
    os.chmod(script, 0o755)
    return script


def _defaults(master: str, memory: str, scratch: str) -> dict[str, str]:
    log4j = os.path.join(scratch, "log4j2.properties")
    with open(log4j, "w", encoding="utf-8") as file:
        file.write(_LOG4J)
    settings = {
        "spark.driver.memory": memory,
        # A file, since Spark's own start-up warnings come before any setting of the log level. Java unpacks libraries
        # and makes folders of its own, which stay when it is killed.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -Djava.io.tmpdir={scratch}",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
        settings["spark.sql.shuffle.partitions"] = str(max(os.cpu_count() or 1, 2))  # a cluster has more than we see
    return settings
