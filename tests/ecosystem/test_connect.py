"""Kafka Connect, distributed: a file through a topic into another file, while workers come and go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chronik.shell.ports import free_ports
from chronik.testing import cluster
from tests.cluster.support import check_logs
from tests.ecosystem.brokers import Brokers
from tests.ecosystem.programs import PROGRAM_SECONDS, Program, java, needs, properties
from tests.ecosystem.rest import ask

needs("kafka ecosystem")

PARTITIONS = 4
LINES = 200
KILLS = 3
INTERNAL = ("connect-configs", "connect-offsets", "connect-status")
# What a worker warns of with any Kafka: it starts behind the others, stops while it waits for an answer, and on a slow
# machine a sink task offers offsets of partitions that have just been taken from it, which the worker leaves alone.
HARMLESS = (
    "Catching up to assignment's config offset",
    "Close timed out with 1 pending requests to coordinator",
    "-- partition not assigned, assignment=",
)

Status = dict[str, Any]


class Worker:
    """A worker of Connect, and its REST interface."""

    def __init__(self, name: str, bootstrap: str, folder: Path, more: Mapping[str, str] | None = None) -> None:
        [port] = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        self.address = f"127.0.0.1:{port}"
        settings = properties(folder / f"{name}.properties", worker_settings(bootstrap, self._url) | dict(more or {}))
        self.program = Program(name, java("org.apache.kafka.connect.cli.ConnectDistributed", str(settings)), folder)

    def ask(self, path: str, body: Any = None) -> Any:
        """What it answers; None while it cannot: it starts, does not know a connector yet, or hands tasks out anew."""
        answer = ask(self._url + path, body)
        if answer.status in (0, 404, 409, 500):
            return None
        assert answer.status in (200, 201), answer
        return answer.body

    def create(self, name: str, config: dict[str, str]) -> None:
        self.program.wait_until(
            lambda: self.ask("/connectors", {"name": name, "config": config}) is not None, f"{name} is created"
        )

    def task_workers(self) -> dict[str, str]:
        """For each task that runs, the worker that has it."""
        running: dict[str, str] = {}
        for name in self.ask("/connectors") or ():
            status: Status = self.ask(f"/connectors/{name}/status") or {"tasks": []}
            running |= {
                f"{name}-{task['id']}": task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"
            }
        return running

    def wait_until_tasks(self, is_so: Callable[[dict[str, str]], bool], what: str) -> None:
        self.program.wait_until(lambda: is_so(self.task_workers()), lambda: f"{what}: {self.task_workers()}")


def worker_settings(bootstrap: str, listener: str) -> dict[str, str]:
    text = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "listeners": listener,
        "key.converter": text,
        "value.converter": text,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        "offset.storage.partitions": "4",
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "service_load",
        # Tasks of a worker that left go to the others at once, not after the five minutes in which it might return.
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "60000",
        "heartbeat.interval.ms": "1000",
    }


def lines(first: int) -> list[str]:
    return [f"line {at}" for at in range(first, first + LINES)]


@pytest.mark.timeout(6 * PROGRAM_SECONDS)
def test_a_file_goes_through_a_topic_once_while_workers_come_and_go(tmp_path: Path) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.touch()
    with cluster(nodes=3) as nodes:
        brokers = Brokers(nodes.bootstrap, replicas=3)
        brokers.create("lines", PARTITIONS)
        first, second = (Worker(name, nodes.bootstrap, tmp_path) for name in ("worker-1", "worker-2"))

        def copy(worker: Worker, at: int) -> None:
            """More lines are written, and all that were written so far arrive."""
            with source.open("a") as file:
                file.write("".join(f"{line}\n" for line in lines(at)))
            wanted = sorted(line for start in range(0, at + 1, LINES) for line in lines(start))
            worker.program.wait_until(
                lambda: sink.exists() and len(sink.read_text().splitlines()) >= len(wanted), f"{len(wanted)} lines"
            )
            assert sorted(sink.read_text().splitlines()) == wanted, "a line is missing, or came twice"

        file_source = {"connector.class": "FileStreamSource", "topic": "lines", "file": str(source)}
        file_sink = {"connector.class": "FileStreamSink", "topics": "lines", "file": str(sink), "tasks.max": "3"}
        with contextlib.ExitStack() as programs:
            programs.enter_context(first.program)
            first.create("source", file_source)
            first.create("sink", file_sink)
            first.wait_until_tasks(lambda tasks: len(tasks) == 4, "all tasks run")
            copy(first, 0)

            programs.enter_context(second.program)
            first.wait_until_tasks(
                lambda tasks: len(tasks) == 4 and set(tasks.values()) == {first.address, second.address},
                "both workers have tasks",
            )
            copy(second, LINES)

            first.program.stop()
            second.wait_until_tasks(
                lambda tasks: len(tasks) == 4 and set(tasks.values()) == {second.address}, "the other has all tasks"
            )
            copy(second, 2 * LINES)

            second.program.stop()
            second.program.start()
            second.wait_until_tasks(lambda tasks: len(tasks) == 4, "all tasks run again")
            copy(second, 3 * LINES)

            assert sum(brokers.ends("lines")) == 4 * LINES, "the source has sent each line once"
            assert [brokers.settings(topic).get("cleanup.policy") for topic in INTERNAL] == ["compact"] * 3
            complaints = first.program.complaints() + second.program.complaints()
            assert [line for line in complaints if not any(each in line for each in HARMLESS)] == []
        check_logs(nodes)


@pytest.mark.timeout(6 * PROGRAM_SECONDS)
def test_an_exactly_once_source_sends_each_line_once_though_its_worker_is_killed(tmp_path: Path) -> None:
    """KIP-618: lines and the place in the file are one transaction; the next task fences the one before it."""
    source = tmp_path / "source.txt"
    source.touch()
    settings = {
        "exactly.once.source.support": "enabled",
        "session.timeout.ms": "10000",
        "heartbeat.interval.ms": "1000",
    }
    connector = {
        "connector.class": "FileStreamSource",
        "topic": "lines",
        "file": str(source),
        "exactly.once.support": "required",
    }
    with cluster(nodes=3) as nodes:
        brokers = Brokers(nodes.bootstrap, replicas=3)
        brokers.create("lines", 1)
        worker = Worker("worker", nodes.bootstrap, tmp_path, settings)

        def sent() -> list[str]:
            return [(value or b"").decode() for _, _, _, value, _ in brokers.read_committed("lines")]

        def write(at: int) -> None:
            with source.open("a") as file:
                file.write("".join(f"{line}\n" for line in lines(at)))

        with worker.program:
            worker.create("source", connector)
            for kill in range(KILLS):
                write(2 * kill * LINES)
                worker.program.wait_until(
                    partial(_are_more, sent, 2 * kill * LINES), lambda: f"lines are sent: {len(sent())}"
                )
                write((2 * kill + 1) * LINES)  # which it dies with
                worker.program.kill()
                worker.program.start()
            expected = [line for part in range(2 * KILLS) for line in lines(part * LINES)]
            worker.program.wait_until(
                lambda: len(sent()) >= len(expected), lambda: f"{len(sent())} of {len(expected)} lines"
            )
            assert sent() == expected, "a line is missing, came twice, or is out of order"
        check_logs(nodes)


def _are_more(sent: Callable[[], list[str]], count: int) -> bool:
    return len(sent()) > count
