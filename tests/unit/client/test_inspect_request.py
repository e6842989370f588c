"""Looks at nodes from outside: by way of any one of them, at all of them, and at things that are none."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import pytest

from chronik.client import inspect_request
from chronik.client.inspect_request import Inspections, InspectRefused, NotChronik, inspect_everywhere, inspect_node
from chronik.client.request import Address, NoAnswer
from chronik.trace.inspections import ClusterStateView, EventsView, NodeSeen, StateView, Totals, Traces
from tests.unit.client.answering import Answer, a_chronik_that_hangs_up, another_kafka, answering
from tests.unit.client.looked_at import NOTHING_TRACED, Nodes, asked_in, framed, free_address


def asked(address: Address, view: str, timeout_s: float = 5.0, **arguments: Any) -> dict[str, Any]:
    return inspect_node(dict[str, Any], address, view, timeout_s, **arguments)


def asked_everywhere(
    addresses: list[Address], view: str, timeout_s: float = 5.0, **arguments: Any
) -> Inspections[dict[str, Any]]:
    return inspect_everywhere(dict[str, Any], addresses, view, timeout_s, lambda node_id: arguments)


# --- one node


def test_a_look_brings_its_arguments_and_the_answer_back() -> None:
    seen: list[dict[str, Any]] = []

    def answer(request: bytes) -> bytes:
        seen.append(asked_in(request))
        return framed(request, {"node": 3})

    with answering(answer) as address:
        assert asked(address, "record", topic="orders", offset=5) == {"node": 3}

    assert seen == [{"view": "record", "topic": "orders", "offset": 5}]


def test_what_a_node_refuses_is_said_in_its_words() -> None:
    refusing: Answer = lambda request: framed(request, {"error": "there is no view"})  # noqa: E731
    with answering(refusing) as address, pytest.raises(InspectRefused, match="there is no view"):
        asked(address, "nonsense")


def test_who_hangs_up_is_no_chronik() -> None:
    """As every Kafka does with a request that it does not know."""
    with answering(another_kafka) as address, pytest.raises(NotChronik, match="no chronik"):
        asked(address, "state")


@pytest.mark.parametrize("hanging_up", [a_chronik_that_hangs_up, lambda request: b""])
def test_that_somebody_hangs_up_does_not_make_it_another_kafka(hanging_up: Answer) -> None:
    """A node that is being stopped does, and so does a network in between: it has to say itself what it speaks."""
    with answering(hanging_up) as address, pytest.raises(NoAnswer, match="hung up") as raised:
        asked(address, "state")

    assert not isinstance(raised.value, NotChronik)


def test_a_name_that_cannot_be_looked_up_is_nobody() -> None:
    with pytest.raises(NoAnswer, match=r"a\.\.b cannot be a host name"):
        asked(("a..b", 9092), "state")


def test_a_node_that_was_stopped_meanwhile_is_not_called_another_kafka() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()[:2]

        def hang_up_for_good(request: bytes) -> bytes:
            server.close()
            return b""

        with pytest.raises(NoAnswer) as raised:
            _asked_of(server, hang_up_for_good, (host, port))

    assert not isinstance(raised.value, NotChronik)


def _asked_of(server: socket.socket, answer: Answer, address: Address) -> None:
    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            answer(connection.recv(65_536))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        asked(address, "state")
    finally:
        thread.join()


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        lambda request: struct.pack(">i", 10) + request[8:12] + struct.pack(">hi", 35, 0),
        lambda request: struct.pack(">i", 12) + request[8:12] + struct.pack(">i", 4) + b"oops",
        lambda request: struct.pack(">iii", 12, 99, 4) + b"null",
        lambda request: struct.pack(">iii", -1, 1, -9),
    ],
    ids=["http", "an error code", "no json", "the answer to another question", "negative"],
)
def test_what_answers_something_else_is_no_chronik(nonsense: Answer) -> None:
    with answering(nonsense) as address, pytest.raises(NotChronik):
        asked(address, "state")


def test_nobody_there_is_no_answer() -> None:
    with pytest.raises(NoAnswer) as raised:
        asked(free_address(), "state")

    assert not isinstance(raised.value, NotChronik)


def test_who_says_nothing_is_waited_for_no_longer_than_wanted() -> None:
    with answering(None) as address, pytest.raises(NoAnswer, match=r"in 0\.05 s"):
        asked(address, "state", timeout_s=0.05)


# --- all nodes


def test_every_node_is_asked_by_way_of_the_one_that_is_known() -> None:
    """The others have addresses that nobody here can reach, as behind a tunnel."""
    nodes = Nodes({each: free_address() for each in (1, 2, 3)}, {each: {"node": each} for each in (1, 2, 3)})
    with answering(nodes) as address:
        found = asked_everywhere([address], "state", topics=["orders"])

    assert found == {1: {"node": 1}, 2: {"node": 2}, 3: {"node": 3}}
    assert found.silent == {}
    assert all(asked["topics"] == ["orders"] for asked in nodes.asked)


def test_a_node_that_cannot_be_reached_is_named_with_the_reason() -> None:
    nodes = Nodes({each: free_address() for each in (1, 2)}, {1: {"node": 1}})
    with answering(nodes) as address:
        found = asked_everywhere([address], "state")

    assert list(found) == [1]
    assert "it hung up" in found.silent[2]


def test_a_node_that_only_others_cannot_reach_is_asked_itself() -> None:
    with (
        answering(lambda request: framed(request, {"node": 2})) as second,
        answering(Nodes({1: free_address(), 2: second}, {1: {"node": 1}})) as first,
    ):
        found = asked_everywhere([first], "state")

    assert found == {1: {"node": 1}, 2: {"node": 2}}
    assert found.silent == {}


class Hanging(Nodes):
    """Node 1 waits for an answer of node 2 that does not come."""

    def __call__(self, request: bytes) -> bytes:
        if asked_in(request).get("node") == 2:
            threading.Event().wait(2 * inspect_request.DIRECT_TIMEOUT_S)
        return super().__call__(request)


def test_a_node_that_hangs_and_takes_no_part_any_more_is_not_waited_for_as_long() -> None:
    """A node that hangs and takes no part any more is not waited for as long as others."""
    with (
        answering(None) as second,
        answering(Hanging({1: free_address(), 2: second}, {1: {"node": 1}}, fenced=(2,))) as first,
    ):
        found = asked_everywhere([first], "state", timeout_s=30.0)

    assert found == {1: {"node": 1}}
    assert "does not answer in 1 s" in found.silent[2]


def test_a_node_that_does_not_answer_by_way_of_another_is_asked_itself_meanwhile() -> None:
    with (
        answering(lambda request: framed(request, {"node": 2})) as second,
        answering(Hanging({1: free_address(), 2: second}, {1: {"node": 1}, 2: {"node": 2, "late": True}})) as first,
    ):
        found = asked_everywhere([first], "state", timeout_s=30.0)

    assert found == {1: {"node": 1}, 2: {"node": 2}}


def test_the_next_address_is_tried_when_nobody_is_at_the_first() -> None:
    with answering(Nodes({1: free_address()}, {1: {"node": 1}})) as address:
        assert asked_everywhere([free_address(), address], "state") == {1: {"node": 1}}


def test_no_node_at_all_is_no_answer() -> None:
    with pytest.raises(NoAnswer):
        asked_everywhere([free_address()], "state")
    with pytest.raises(NoAnswer):
        asked_everywhere([], "state")


def test_another_kafka_is_told_apart_from_nobody() -> None:
    with answering(another_kafka) as address, pytest.raises(NotChronik):
        asked_everywhere([address], "state")


def test_the_cluster_is_told_by_the_first_that_answers() -> None:
    with answering(Nodes({1: ("here", 1), 2: ("there", 2)}, {})) as address:
        seen = inspect_request.cluster([address])

    assert seen == ClusterStateView(
        1, 1, "9", "c", True, 1, (NodeSeen(1, "here", 1, True), NodeSeen(2, "there", 2, True)), Traces(False, ())
    )


def test_states_are_typed() -> None:
    state = {
        "node": 1, "now_us": 5, "version": "9", "is_ready": True, "traces": NOTHING_TRACED, "partitions": [],
        "copies": [], "groups": [], "totals": dict.fromkeys(Totals.__struct_fields__, 0),
    }  # fmt: skip
    with answering(Nodes({1: free_address()}, {1: state})) as address:
        found = inspect_request.states([address], topics=["orders"])

    assert found == {1: StateView(1, 5, "9", True, Traces(False, ()), (), (), (), Totals(0, 0, 0, 0, 0, 0, 0, 0))}


def test_events_are_asked_for_with_each_nodes_own_cursor() -> None:
    answer = {"node": 1, "now_us": 5, "traces": NOTHING_TRACED, "events": [], "cursor": 9, "lost": 0}
    nodes = Nodes({1: free_address(), 2: free_address()}, {1: answer, 2: {**answer, "node": 2}})
    with answering(nodes) as address:
        found = inspect_request.events([address], cursors={2: 40}, kinds=["refused"])

    assert found[2] == EventsView(2, 5, Traces(False, ()), (), 9, 0)
    asked = sorted(nodes.asked, key=lambda each: int(each["node"]))
    assert [each["cursor"] for each in asked] == [0, 40]
    assert {str(each["kinds"]) for each in asked} == {"['refused']"}
