"""A Spark session with the settings that save trouble, and clear words where Java or PySpark is missing.

Spark runs in a Java process of ours (a *classic* session), or in a Spark Connect server that we send plans to. What
only a classic session has is asked for here: nothing else in the package may touch `sparkContext`.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
LOOPBACK = "127.0.0.1"
LOCAL = "local[*]"
REMOTE = "SPARK_REMOTE"  # Spark's own name for it, in the environment
CONNECT_SCHEME, CONNECT_PORT = "sc", 15002
CONNECT_S = 10.0
SPARK_MIN = (4, 2)
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
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if found is None:
        raise SparkNotReady(f"{java} does not say its version. {advice}")
    if int(found[1]) < JAVA_MIN:
        raise SparkNotReady(f"{java} is Java {found[1]}. {advice}")
    return int(found[1])


def open_session(
    name: str = "chronik",
    master: str = LOCAL,
    memory: str = "4g",
    settings: Mapping[str, str] | None = None,
    scratch_dir: str | None = None,
    remote: str | None = None,
) -> SparkSession:
    """A session that knows the format `chronik`. The same process has one at a time. Raises SparkNotReady.

    `remote` is the address of a Spark Connect server, as SPARK_REMOTE has it in the environment: then Spark runs there,
    with the master, memory and scratch folder that the server was started with. `scratch_dir` must stay as long as the
    process; without it there is one that goes with the process.
    """
    remote = remote or os.environ.get(REMOTE)
    if not remote:
        java_version()
    try:
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise SparkNotReady(f"PySpark is not installed ({problem}): pip install 'chronik[spark]'") from problem
    from chronik.pipeline.source import ChronikDataSource

    if remote:
        if master != LOCAL:
            raise SparkNotReady(f"Spark cannot run at {master} and through {remote}: leave out one of the two")
        spark = _connected(name, remote, settings or {})
        spark.dataSource.register(ChronikDataSource)
        return spark
    scratch = scratch_dir or own_scratch()
    # Tasks must run the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", _quick_python(scratch) if master.startswith("local") else sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_defaults(master, memory, scratch), **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not is_connect(spark):  # as it is with spark.api.mode=connect, too
        if scratch_dir is None:
            _remove_with_java(spark, scratch)
        spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(ChronikDataSource)
    return spark


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect: its plans are run in another process, on another machine maybe."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores_of(spark: SparkSession) -> int:
    """How many tasks Spark runs at once."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    from pyspark.sql import functions as F

    # A server does not say; but a range without a wish has as many tasks.
    row = spark.range(1 << 16).select(F.spark_partition_id().alias("task")).agg(F.max("task")).first()
    return 1 if row is None or row[0] is None else int(row[0]) + 1


def _connected(name: str, remote: str, settings: Mapping[str, str]) -> SparkSession:
    """A session of the Spark Connect server at `remote`. Raises SparkNotReady."""
    host, port = connect_address(remote)
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as problem:
        missing = "pip install 'chronik[connect]'"
        raise SparkNotReady(f"Spark Connect needs packages that are not installed ({problem}): {missing}") from problem
    try:
        socket.create_connection((host, port), CONNECT_S).close()  # Spark's own client would try for minutes
    except OSError as problem:
        raise SparkNotReady(
            f"no Spark Connect server answers at {host}:{port}: {problem.strerror or problem}"
        ) from problem
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(name).remote(remote).getOrCreate()
    try:
        _check_server(spark, settings)
        for key, value in {"spark.sql.session.timeZone": "UTC", **settings}.items():
            spark.conf.set(key, value)
    except SparkNotReady:
        spark.stop()
        raise
    return spark


def connect_address(remote: str) -> tuple[str, int]:
    """Host and port of `sc://host:port/;token=...`. Raises SparkNotReady."""
    wrong = f"{remote} is not the address of a Spark Connect server: that is sc://HOST:PORT"
    try:
        url = urlsplit(remote)
        host, port = url.hostname, url.port or CONNECT_PORT
    except ValueError as problem:
        raise SparkNotReady(wrong) from problem
    if host is None or url.scheme != CONNECT_SCHEME:
        raise SparkNotReady(wrong)
    return host, port


def _check_server(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Raises SparkNotReady where the server cannot do what is wanted, or its sessions may not change a setting."""
    version = re.match(r"(\d+)\.(\d+)", spark.version)
    if version is None or (int(version[1]), int(version[2])) < SPARK_MIN:
        raise SparkNotReady(
            f"the server runs Spark {spark.version}: the jobs need {'.'.join(map(str, SPARK_MIN))} or newer"
        )
    if fixed := [key for key in settings if not spark.conf.isModifiable(key)]:
        raise SparkNotReady(f"a session of Spark Connect cannot set {fixed[0]}: set it where the server is started")


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


def with_retries(master: str) -> str:
    """`local[2]` gives up at the first task that fails; like a cluster, it is to try four times."""
    return re.sub(r"^local\[([^,\]]+)\]$", r"local[\1,4]", "local[1]" if master == "local" else master)
