"""Only names of this node are answered, so that no web page can make one of its own lead here."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from chronik.core.config.node import NodeConfig
from chronik.http.hosts import HostCheck, is_answered, own_names

NAMES = frozenset(("localhost", "kafka.example", "node-1"))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9644",
        "kafka.example.:9644",
        "node-1",
        "127.0.0.1",
        "10.1.2.3:80",
        "[::1]:9644",
        "::1",
        "",
    ],
)
def test_own_names_and_addresses_are_answered(host: str) -> None:
    assert is_answered(host, NAMES)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example:9644", "kafka.example.evil", "127.0.0.1.evil.example", "[evil]", ":"],
)
def test_other_names_are_not(host: str) -> None:
    assert not is_answered(host, NAMES)


def test_a_star_stands_for_any_name() -> None:
    assert is_answered("whatever.example", frozenset("*"))


def test_a_nodes_names_are_those_it_was_set_up_with() -> None:
    config = NodeConfig.from_settings(
        {
            "listeners": "PLAINTEXT://listen.example:9092",
            "advertised.listeners": "PLAINTEXT://Advertised.example:9092",
            "http.address": "http.example:9644",
            "http.allowed.hosts": "proxy.example, other.example",
            "controller.quorum.voters": "1@voter.example:9092",
        }
    )

    assert own_names(config, "machine") == {
        "listen.example", "advertised.example", "http.example", "proxy.example", "other.example", "voter.example",
        "machine", "localhost",
    }  # fmt: skip


def test_a_wrong_name_is_told_with_a_sentence_and_nothing_is_asked() -> None:
    asked: list[Any] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope)

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    check = HostCheck(app, NAMES)
    asyncio.run(check({"type": "http", "headers": [(b"host", b"evil.example")]}, receive, send))
    assert asked == []
    assert sent[0]["status"] == 421
    assert "http.allowed.hosts" in json.loads(sent[1]["body"])["error"]

    asyncio.run(check({"type": "http", "headers": [(b"host", b"localhost:1")]}, receive, send))
    assert len(asked) == 1
