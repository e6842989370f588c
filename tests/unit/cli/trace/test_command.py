"""`chronik trace`: what it says of a cluster that traces, or not, or is none; a tail that tells each event once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

from chronik.cli.output import print_note
from chronik.cli.trace.command import app
from chronik.client.errors import ChronikError
from chronik.client.request import Address
from chronik.inspect.event_follower import EventFollower
from chronik.inspect.event_lines import KINDS
from chronik.trace.events import AnyEvent, WatermarkMoved
from tests.unit.client.answering import another_kafka, answering
from tests.unit.client.looked_at import Nodes, free_address

OFF = {"is_all": False, "exceptions": []}


def moved(node: int, at_us: int) -> dict[str, Any]:
    return {
        "kind": "watermark_moved", "at_us": at_us, "node": node, "topic": "orders", "partition": 0, "before": 0,
        "watermark": at_us, "next_offset": at_us, "is_leader": True,
    }  # fmt: skip


def events_of(node: int, *at_us: int, cursor: int = 1, **changes: Any) -> dict[str, Any]:
    answer = {
        "node": node, "now_us": 9, "traces": {"is_all": True, "exceptions": []}, "cursor": cursor, "lost": 0,
        "events": [moved(node, each) for each in at_us],
    }  # fmt: skip
    return answer | changes


def two_nodes(**answers: Any) -> Nodes:
    return Nodes({1: free_address(), 2: free_address()}, {1: answers.get("first"), 2: answers.get("second")})


def follower(address: Address, told: list[int], topics: list[str] | None = None) -> EventFollower:
    def show(events: Sequence[AnyEvent]) -> None:
        for event in events:
            assert isinstance(event, WatermarkMoved)
            told.append(event.at_us)

    return EventFollower([address], "there", topics, list(KINDS), show, print_note)


# --- following


def test_the_last_events_of_all_nodes_are_told_in_the_order_of_their_times() -> None:
    told: list[int] = []
    with answering(two_nodes(first=events_of(1, 3, 7), second=events_of(2, 4, 6))) as address:
        follower(address, told).begin(last=3)

    assert told == [4, 6, 7]


def test_who_wants_no_past_is_told_none() -> None:
    told: list[int] = []
    with answering(two_nodes(first=events_of(1), second=events_of(2))) as address:
        follower(address, told).begin(last=0)

    assert told == []


def test_each_look_goes_on_where_the_one_before_ended_on_that_node() -> None:
    told: list[int] = []
    nodes = two_nodes(first=events_of(1, 3, cursor=30), second=events_of(2, 4, cursor=40))
    with answering(nodes) as address:
        tail = follower(address, told)
        tail.begin(last=10)
        nodes.asked.clear()
        nodes.answers = {1: events_of(1, 9, cursor=31, is_more=True), 2: events_of(2, 8, cursor=41)}
        is_more = tail.step()

    assert told == [3, 4, 8, 9]
    assert is_more
    assert {asked["node"]: asked["cursor"] for asked in nodes.asked} == {1: 30, 2: 40}


def test_events_that_were_let_go_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = two_nodes(first=events_of(1), second=events_of(2, lost=1200))
    with answering(nodes) as address:
        follower(address, []).step()

    assert "node 2 had to let go of 1,200 events" in capsys.readouterr().err


def test_that_tracing_is_off_is_said_once_and_again_when_it_is_off_again(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = two_nodes(first=events_of(1, traces=OFF), second=events_of(2, traces=OFF))
    on = events_of(1), events_of(2)
    with answering(nodes) as address:
        tail = follower(address, [])
        tail.step()
        tail.step()
        said_once = capsys.readouterr().err
        nodes.answers, off = {1: on[0], 2: on[1]}, nodes.answers
        tail.step()
        nodes.answers = off
        tail.step()

    assert said_once.count("tracing is off: switch it on with `chronik trace on`") == 1
    assert capsys.readouterr().err.count("tracing is off") == 1


def test_a_topic_that_is_not_traced_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    traces = {"is_all": False, "exceptions": ["orders"]}
    with answering(two_nodes(first=events_of(1, traces=traces), second=events_of(2, traces=traces))) as address:
        follower(address, [], ["orders", "bills"]).step()

    said = capsys.readouterr().err
    assert "topic bills is not traced" in said
    assert "topic orders" not in said


def test_a_node_that_falls_silent_is_named_and_a_cluster_that_does_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = two_nodes(first=events_of(1), second=events_of(2))
    with answering(nodes) as address:
        tail = follower(address, [])
        tail.step()
        del nodes.answers[2]
        tail.step()
        assert "node 2 does not answer" in capsys.readouterr().err

    assert tail.step() is False
    assert "no node answers" in capsys.readouterr().err


# --- the commands


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def test_status_says_what_is_traced_and_who_does_not_answer() -> None:
    nodes = Nodes({1: free_address(), 2: free_address()}, {1: None})
    nodes.answers[1] = nodes.as_cluster() | {
        "traces": {"is_all": True, "exceptions": ["bills"], "added": 5000, "kept": 70, "is_stored": True}
    }
    with answering(nodes) as (host, port):
        for_people = run("status", "--bootstrap", f"{host}:{port}")
        as_json = run("status", "--bootstrap", f"{host}:{port}", "--json")

    assert "traced: every topic but bills" in for_people.stdout
    assert "5,000" in for_people.stdout
    assert "node 2 does not answer" in for_people.stderr
    (node,) = json.loads(as_json.stdout)["nodes"]
    assert node == {
        "node": 1, "on": True, "all_topics": True, "exceptions": ["bills"], "events": 5000, "in_memory": 70,
        "stored": True,
    }  # fmt: skip
    assert list(json.loads(as_json.stdout)["silent"]) == ["2"]


def test_a_tail_that_is_not_to_follow_ends_and_its_json_is_the_events_own() -> None:
    with answering(two_nodes(first=events_of(1, 3), second=events_of(2, 2))) as (host, port):
        shown = run("tail", "--no-follow", "--json", "--bootstrap", f"{host}:{port}")

    assert [json.loads(line) for line in shown.stdout.splitlines()] == [moved(2, 2), moved(1, 3)]


def test_how_things_stand_is_shown_only_on_demand() -> None:
    nodes = two_nodes(first=events_of(1), second=events_of(2))
    with answering(nodes) as (host, port):
        for options in ([], ["--state"], ["--kind", "partition_seen"]):
            run("tail", "--no-follow", "--bootstrap", f"{host}:{port}", *options)

    kinds = [set(asked["kinds"]) for asked in nodes.asked[::2]]
    assert set(KINDS) - kinds[0] == {"group_seen", "partition_seen", "transaction_seen"}
    assert kinds[1:] == [set(KINDS), {"partition_seen"}]


def test_a_kind_that_there_is_not_is_refused_with_those_there_are() -> None:
    problem = run("tail", "--kind", "nonsense").exception

    assert isinstance(problem, ChronikError)
    assert "nonsense" in str(problem)
    assert "watermark_moved" in str(problem)


@pytest.mark.parametrize("command", [["on"], ["off"], ["status"], ["tail"], ["on", "--topic", "orders"]])
def test_another_kafka_is_told_apart_from_nobody(command: list[str]) -> None:
    with answering(another_kafka) as (host, port):
        other = run(*command, "--bootstrap", f"{host}:{port}").exception
    nobody = run(*command, "--bootstrap", f"{host}:{port}").exception

    assert isinstance(other, ChronikError)
    assert "no chronik" in str(other)
    assert isinstance(nobody, ChronikError)
    assert "no Kafka node answers" in str(nobody)
