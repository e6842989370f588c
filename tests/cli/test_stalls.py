"""`chronik stalls` against a real node: it finds nothing where nothing stalls, and says what it could not know."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.cli.conftest import Chronik

pytestmark = pytest.mark.skipif(os.environ.get("CHRONIK_TEST_PEER") == "kafka", reason="only chronik can be looked at")


@pytest.fixture
def untraced(chronik: Chronik) -> Iterator[Chronik]:
    """All tests share the node: it is left as it was."""
    yield chronik
    chronik.run("trace", "off")


def test_a_node_that_is_well_has_no_stalls(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, stdin="a\nb\n")

    said = chronik.run("stalls", "--topic", topic, "--seconds", "1")

    assert said.code == 0
    assert said.out.startswith("nothing stalls: 1 node, 1 partition and ")
    assert f"not traced: {topic}" in said.err
    assert "chronik trace on" in said.err


def test_json_has_all_of_it_and_nothing_else(untraced: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    untraced.ok("trace", "on", "--topic", topic)
    untraced.ok("produce", topic, stdin="a\n")

    said = untraced.ok("stalls", "--topic", topic, "--seconds", "0", "--json").json

    assert (said["stalls"], said["untraced"], said["silent"], said["partitions"]) == ([], [], {}, 1)
    assert len(said["nodes"]) == 1


def test_nobody_there_is_a_plain_error() -> None:
    said = Chronik("127.0.0.1:1").run("stalls", "--seconds", "0")
    assert said.code == 2
    assert "no Kafka node answers at 127.0.0.1:1" in said.err
