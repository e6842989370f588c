"""The paths of the HTTP port, asked without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chronik.http.routes import build
from chronik.trace.events import WatermarkMoved
from tests.unit.http.fake_node import FakeNode

PATHS = ["/health", "/metrics", "/partitions", "/ready", "/stalls", "/trace"]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(node: FakeNode, path: str, method: str = "GET") -> Answer:
    """What the application answers over ASGI."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "headers": [], "scheme": "http",
        "server": ("test", 80),
    }  # fmt: skip
    asyncio.run(build(node.as_node)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))


def test_health_is_200_and_ok_while_everything_is_served() -> None:
    answer = ask(FakeNode(), "/health")

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["status"] == "ok"


def test_health_is_503_with_the_reasons_when_a_replica_is_offline() -> None:
    node = FakeNode()
    node.replicas.failed["orders", 0] = "bad magic at 17"

    answer = ask(node, "/health")

    assert answer.status == 503
    assert answer.json["problems"] == ["orders-0 is offline: bad magic at 17"]


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
def test_ready_follows_the_node(is_ready: bool, status: int) -> None:
    node = FakeNode()
    node.is_ready = is_ready

    assert ask(node, "/ready").status == status


def test_metrics_are_prometheus_text() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, watermark=41, end=42)

    answer = ask(node, "/metrics")

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert families["chronik_partition_high_watermark"].samples[0].value == 41


def test_an_unknown_path_is_a_404_that_lists_the_paths_there_are() -> None:
    answer = ask(FakeNode(), "/metricz")

    assert answer.status == 404
    assert answer.json["paths"] == PATHS


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed_over_http(method: str) -> None:
    answer = ask(FakeNode(), "/health", method)

    assert answer.status == 405
    assert sorted(answer.headers["allow"].split(", ")) == ["GET", "HEAD"]
    assert answer.json["paths"] == PATHS


def test_a_fault_in_a_view_is_a_500_and_is_handed_on_to_be_logged() -> None:
    node = FakeNode()
    del node.replicas  # so that every view breaks
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/health", "headers": [], "query_string": b""}
    with pytest.raises(AttributeError, match="replicas"):
        asyncio.run(build(node.as_node)(scope, receive, send))

    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"]) == {"error": "Internal Server Error"}


def test_partitions_are_told_with_their_gaps_and_followers() -> None:
    node = FakeNode()
    node.replicas.add("orders", 0, watermark=90, end=100)
    node.replicas.add("bills", 0, watermark=5, end=5)

    answer = ask(node, "/partitions?topic=orders")

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    (partition,) = answer.json["partitions"]
    assert (partition["topic"], partition["watermark"], partition["next_offset"]) == ("orders", 90, 100)
    assert partition["followers"][0]["lag_records"] == 100
    assert answer.json["totals"]["gap_largest"] == 10
    assert len(ask(node, "/partitions").json["partitions"]) == 2
    assert len(ask(node, "/partitions?topic=orders&topic=bills").json["copies"]) == 2


def test_the_trace_is_told_from_a_cursor_on() -> None:
    node = FakeNode()
    for number in range(1, 4):
        node.trace.add(WatermarkMoved(1, 7, "orders", 0, number - 1, number, number, is_leader=True))

    answer = ask(node, "/trace?cursor=1&limit=1&topic=orders&kind=watermark_moved")

    assert [event["watermark"] for event in answer.json["events"]] == [2]
    assert (answer.json["cursor"], answer.json["is_more"]) == (2, True)
    assert [event["watermark"] for event in ask(node, "/trace?last=2").json["events"]] == [2, 3]
    assert ask(node, "/trace?topic=bills").json["events"] == []


@pytest.mark.parametrize("query", ["cursor=x", "limit=-1", "last=", "last=1.5"])
def test_a_parameter_that_is_no_number_is_refused(query: str) -> None:
    answer = ask(FakeNode(), f"/trace?{query}")

    assert answer.status == 400
    assert query.partition("=")[0] in answer.json["error"]


def test_a_node_on_which_nothing_stalls_says_so() -> None:
    answer = ask(FakeNode(), "/stalls")

    assert answer.status == 200
    assert (answer.json["node"], answer.json["is_traced"], answer.json["stalls"]) == (7, False, [])
