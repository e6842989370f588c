"""Apache Kafka as the peer: it starts, takes messages and stops; and what its tools print is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.__main__ import systems_for
from tests.bench.client.perf_tools import consumed, end_to_end, produced
from tests.bench.client_link import Client
from tests.bench.rows import ROWS
from tests.bench.systems.kafka.server import settings_of_kafka
from tests.bench.systems.system import bootstrap, cpu_seconds, memory_megabytes

IS_REQUIRED = os.environ.get("CHRONIK_REQUIRE_CLIENTS") == "1"
# Some seconds on a quiet machine; the first time, Maven has to bring it.
BRINGING_TIMEOUT_S = 600


@pytest.mark.timeout(BRINGING_TIMEOUT_S)
def test_a_kafka_takes_100_messages_and_stops_in_order(tmp_path: Path) -> None:
    systems, left_out = systems_for(list(ROWS), "kafka")
    if left_out and not IS_REQUIRED:
        pytest.skip(left_out[0])
    assert left_out == []
    server = systems[1].server(tmp_path / "server", {"durability": "sync"})
    try:
        server.spawn()
        server.wait_until_ready()
        with Client() as client:
            client.ask("create_topics", bootstrap=bootstrap(server), topics={"t": 3})
            stream = {"topic": "t", "messages": 100, "value_bytes": 100, "node_pids": [server.pid]}
            client.ask("produce", bootstrap=bootstrap(server), **stream)
            client.ask("consume", bootstrap=bootstrap(server), **stream)
        assert cpu_seconds(server.pid) > 0
        # The process measured is the JVM itself.
        assert memory_megabytes(server.pid)[0] > 50
        server.stop()
    finally:
        server.kill()


def test_without_java_the_rows_are_measured_without_their_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    systems, left_out = systems_for(list(ROWS), "kafka")

    assert [system.name for system in systems] == ["chronik"]
    assert "there is no `java` here" in left_out[0]
    assert "without their peer" in capsys.readouterr().err


def test_durability_in_kafkas_words() -> None:
    assert settings_of_kafka({"durability": "os", "num.partitions": "3"}) == {"num.partitions": "3"}
    assert settings_of_kafka({"durability": "sync"}) == {"log.flush.interval.messages": "1"}
    assert settings_of_kafka({}) == {}
    with pytest.raises(ValueError, match="durability"):
        settings_of_kafka({"durability": "maybe"})


def test_what_kafkas_tools_print_is_read() -> None:
    assert produced(
        "5745 records sent, 1144.0 records/sec (1.09 MB/sec), 1789.7 ms avg latency, 2901.0 ms max latency.\n"
        "20000 records sent, 2500.0 records/sec (2.44 MB/sec), 3456.86 ms avg latency, 5097.00 ms max latency.\n",
        value_bytes=1_000,
    ) == {"messages_s": 2500.0, "megabytes_s": 2.5}
    table = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
        "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
        "2030-01-01 04:39:13:027, 2030-01-01 04:39:21:118, 19.0736, 2.3574, 20001, 2472.0, 6266, 1825, 10.4, 11000.0\n"
    )
    assert consumed(table, 20_000, value_bytes=100) == {"messages_s": 11_000.0, "megabytes_s": 1.1}
    assert end_to_end("Avg latency: 15.0758 ms\nPercentiles: 50th = 9, 99th = 86, 99.9th = 212\n") == {
        "p50_ms": 9.0,
        "p99_ms": 86.0,
        "p999_ms": 212.0,
    }


def test_a_tool_that_says_something_else_is_an_error_with_its_words() -> None:
    with pytest.raises(RuntimeError, match="no broker"):
        produced("no broker", value_bytes=1)
    with pytest.raises(RuntimeError, match="no broker"):
        consumed("no broker", 1, value_bytes=1)
    with pytest.raises(RuntimeError, match="no broker"):
        end_to_end("no broker")
