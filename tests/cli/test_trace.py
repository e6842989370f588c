"""`chronik trace` and the watermark monitor against a real node, and against something that is no chronik."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import IO, Any

import pytest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.static.primitive import i8

from chronik.client.connecting import parse_addresses
from chronik.client.request import ask
from chronik.client.trace_switch import BROKER
from tests.cli.conftest import Chronik, interrupt

IS_KAFKA = os.environ.get("CHRONIK_TEST_PEER") == "kafka"
needs_chronik = pytest.mark.skipif(IS_KAFKA, reason="only chronik traces")


@pytest.fixture
def untraced(chronik: Chronik) -> Iterator[Chronik]:
    """All tests share the node: it is as it should be, and is left so."""
    chronik.run("trace", "off")
    yield chronik
    chronik.run("trace", "off")


def status_of(chronik: Chronik) -> Any:
    (node,) = chronik.ok("trace", "status", "--json").json["nodes"]
    return node


def is_set_for_all_nodes(chronik: Chronik) -> bool:
    """By a setting, whatever it says."""
    resource = DescribeConfigsResource(resource_type=i8(BROKER), resource_name="", configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=False, include_documentation=False)
    (address,) = parse_addresses(chronik.bootstrap)
    (answer,) = ask(address, request, 5.0).results
    return "chronik.trace" in {config.name for config in answer.configs}


@needs_chronik
def test_one_topic_is_switched_on_and_off(untraced: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()

    switched = untraced.ok("trace", "on", "--topic", topic)

    assert switched.out.startswith(f"tracing is on for topic {topic}, on node ")
    assert (status_of(untraced)["on"], status_of(untraced)["exceptions"]) == (True, [topic])
    assert untraced.ok("trace", "off", "--topic", topic, "--json").json["on"] is False
    assert status_of(untraced)["on"] is False


@needs_chronik
def test_all_is_all_whatever_was_said_of_one_topic(untraced: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    untraced.ok("trace", "off", "--topic", topic)

    switched = untraced.ok("trace", "on", "--json").json

    assert switched["on"]
    assert topic in switched["taken_back"]  # beside those that other tests switched off
    assert status_of(untraced)["all_topics"] is True
    assert is_set_for_all_nodes(untraced)
    assert status_of(untraced)["exceptions"] == []
    assert untraced.ok("trace", "off").out.startswith("tracing is off for every topic, on node ")
    assert not is_set_for_all_nodes(untraced)
    assert "traced: nothing" in untraced.ok("trace", "status").out


@needs_chronik
def test_a_message_is_followed_from_its_producer_to_its_consumer(
    untraced: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    untraced.ok("trace", "on", "--topic", topic)
    untraced.ok("produce", topic, stdin="hello\n")
    untraced.ok("consume", topic, "--from-beginning", "--max-messages", "1")

    shown = untraced.ok("trace", "tail", "--topic", topic, "--no-follow", "--last", "100").out
    as_json = untraced.ok("trace", "tail", "--topic", topic, "--no-follow", "--last", "100", "--json").json_lines

    assert all(word in shown for word in (f"{topic}-0", "appended", "watermark", "answered", "fetched"))
    kinds = [event["kind"] for event in as_json if event.get("topic") == topic]
    steps = ["produce_appended", "watermark_moved", "produce_answered", "fetch_answered"]
    assert [kind for kind in kinds if kind in steps][:4] == steps
    only = untraced.ok("trace", "tail", "--no-follow", "--json", "--kind", "produce_appended", "-t", topic).json_lines
    assert {(event["kind"], event["topic"]) for event in only} == {("produce_appended", topic)}


@needs_chronik
def test_a_tail_goes_on_with_what_comes_until_it_is_told_to_stop(
    untraced: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    untraced.ok("trace", "on", "--topic", topic)
    with untraced.running("trace", "tail", "--json", "--kind", "produce_appended", "-t", topic) as tail:
        untraced.ok("produce", topic, stdin="one\n")
        assert tail.stdout is not None
        first = _event(tail.stdout)
        untraced.ok("produce", topic, stdin="two\n")
        second = _event(tail.stdout)
        code, _, err = interrupt(tail)

    assert (first["base_offset"], second["base_offset"]) == (0, 1)
    assert (code, err) == (0, "")


def _event(lines: IO[bytes]) -> Any:
    return json.loads(lines.readline())


@needs_chronik
def test_a_tail_says_that_tracing_is_off(untraced: Chronik) -> None:
    result = untraced.run("trace", "tail", "--no-follow", "--last", "0")

    assert (result.code, result.out) == (0, "")
    assert result.err == "tracing is off: switch it on with `chronik trace on`\n"


@needs_chronik
def test_what_cannot_be_traced_is_refused(chronik: Chronik, name: str) -> None:
    assert f"no topic {name}" in chronik.refused("trace", "on", "--topic", name)
    assert "never traced" in chronik.refused("trace", "on", "--topic", "__consumer_offsets")
    assert "there is no kind" in chronik.refused("trace", "tail", "--kind", "nonsense")


@pytest.mark.parametrize("command", ["on", "off", "status", "tail"])
def test_another_kafka_has_no_trace(other_kafka: Chronik, chronik: Chronik, command: str) -> None:
    assert "no chronik" in other_kafka.refused("trace", command)
    if IS_KAFKA:
        assert "no chronik" in chronik.refused("trace", command)


def test_describe_has_what_the_leader_knows_if_it_is_ours(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, stdin="a\nb\nc\n")

    (partition,) = chronik.ok("topic", "describe", topic, "--json").json["partitions"]
    shown = chronik.ok("topic", "describe", topic).out

    assert (partition["start_offset"], partition["end_offset"]) == (0, 3)
    if IS_KAFKA:
        assert "gap" not in partition
        assert "end" in shown
        return
    names = ("log_start_offset", "last_stable_offset", "high_watermark", "next_offset", "gap", "followers")
    assert [partition[name] for name in names] == [0, 3, 3, 3, 0, []]
    assert "high watermark" in shown
