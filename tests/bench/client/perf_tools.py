"""Kafka's own measuring tools, from the same jars as the peer: a second opinion on what librdkafka says.

A tool is a JVM that starts, measures itself and prints; only what it prints about the time with messages is taken.
"""

from __future__ import annotations

import os
import re
import subprocess

from tests.bench.client.librdkafka import stored
from tests.bench.systems.kafka.jars import command
from tests.bench.systems.system import cpu_seconds

PACKAGE = "org.apache.kafka.tools"
TIMEOUT_S = 300.0
# As bin/kafka-run-class.sh starts a tool.
FLAGS = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def produce_by_tool(
    bootstrap: str, node_pids: list[int], topic: str, messages: int, value_bytes: int, acks: str = "1"
) -> dict[str, float]:
    amount = ("--num-records", str(messages), "--record-size", str(value_bytes), "--throughput", "-1")
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--command-property", f"acks={acks}")
    printed, costs = _run("ProducerPerformance", node_pids, *amount, *where)
    arrived = stored(bootstrap, topic)
    if arrived != messages:
        raise RuntimeError(f"{arrived} of {messages} messages are in the log")
    return costs | produced(printed, value_bytes)


def consume_by_tool(
    bootstrap: str, node_pids: list[int], topic: str, messages: int, value_bytes: int
) -> dict[str, float]:
    where = ("--bootstrap-server", bootstrap, "--topic", topic)
    printed, costs = _run("ConsumerPerformance", node_pids, *where, "--num-records", str(messages))
    return costs | consumed(printed, messages, value_bytes)


def end_to_end_by_tool(bootstrap: str, topic: str, count: int, value_bytes: int) -> dict[str, float]:
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--producer-acks", "1")
    amount = ("--num-records", str(count), "--record-size", str(value_bytes))
    printed, _ = _run("EndToEndLatency", [], *where, *amount)
    return end_to_end(printed)


def produced(printed: str, value_bytes: int) -> dict[str, float]:
    """From the last line of the producer's tool, which has the whole: '20000 records sent, 2556.2 records/sec ...'."""
    rates = re.findall(r"records sent, ([\d.]+) records/sec", printed)
    if not rates:
        raise RuntimeError(f"the producer's tool said: {printed[-500:]}")
    return _rate(float(rates[-1]), value_bytes)


def consumed(printed: str, messages: int, value_bytes: int) -> dict[str, float]:
    """The rate without the time to join a group, from the two lines of the consumer's tool: names and values."""
    lines = [line.split(", ") for line in printed.splitlines() if ", " in line]
    if len(lines) < 2 or "fetch.nMsg.sec" not in lines[0] or len(lines[-1]) != len(lines[0]):
        raise RuntimeError(f"the consumer's tool said: {printed[-500:]}")
    told = dict(zip(lines[0], lines[-1], strict=True))
    if int(told["data.consumed.in.nMsg"]) < messages:
        raise RuntimeError(f"{told['data.consumed.in.nMsg']} of {messages} messages came")
    return _rate(float(told["fetch.nMsg.sec"]), value_bytes)


def end_to_end(printed: str) -> dict[str, float]:
    """'Percentiles: 50th = 9, 99th = 86, 99.9th = 212', in whole milliseconds: one that is none took less than one."""
    found = re.search(r"50th = (\d+), 99th = (\d+), 99\.9th = (\d+)", printed)
    if found is None:
        raise RuntimeError(f"the tool for latency said: {printed[-500:]}")
    told = (max(float(told), 1.0) for told in found.groups())
    return dict(zip(("p50_ms", "p99_ms", "p999_ms"), told, strict=True))


def _rate(messages_s: float, value_bytes: int) -> dict[str, float]:
    return {"messages_s": messages_s, "megabytes_s": messages_s * value_bytes / 1e6}


def _run(tool: str, node_pids: list[int], *arguments: str) -> tuple[str, dict[str, float]]:
    """What it printed, and what it cost the nodes and itself."""
    before_s, own_before_s = sum(map(cpu_seconds, node_pids)), _children_cpu_s()
    done = subprocess.run(
        command(f"{PACKAGE}.{tool}", *arguments, flags=FLAGS),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
    costs = {
        "node_cpu_s": sum(map(cpu_seconds, node_pids)) - before_s,
        "client_cpu_s": _children_cpu_s() - own_before_s,
    }
    return done.stdout, costs


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system
