"""Addresses in settings."""

from __future__ import annotations

import pytest

from chronik.core.config.addresses import EndPoint, host_and_port, parse_listeners, parse_voters
from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig

THREE = "1@a:9092,2@b:9092,3@c:9093"


def test_voters_are_read_in_the_order_of_their_ids() -> None:
    assert list(parse_voters(" 3@c:9093, 1@a:9092 ,2@[::1]:9094").items()) == [
        (1, ("a", 9092)),
        (2, ("::1", 9094)),
        (3, ("c", 9093)),
    ]
    assert parse_voters("") == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1@a:1,1@b:2", "named twice"),
        ("1@a:1,2@a:1", "same address"),
        ("a:1", "not ID@HOST:PORT"),
        ("x@a:1", "not ID@HOST:PORT"),
        ("1@a", "HOST:PORT"),
        ("1@a:70000", "below 65536"),
        ("1@a..b:1", "not the name of a host"),
        (f"1@{'a' * 64}:1", "not the name of a host"),
        (f"1@{'ä' * 64}:1", "not the name of a host"),
    ],
)
def test_voters_that_make_no_sense_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadConfig, match=complaint):
        parse_voters(text)


def test_names_that_can_be_looked_up_are_taken() -> None:
    for host in ("", "::1", "127.0.0.1", "kafka.example.", "bücher.example", "a" * 63):
        assert host_and_port("listeners", f"{host}:9092") == (host, 9092)


def test_a_listener_speaks_what_the_map_or_its_name_says() -> None:
    assert parse_listeners("listeners", "ssl://:9092,Clients://h:9093,OTHER://:0", {"CLIENTS": "SASL_SSL"}) == (
        EndPoint("SSL", "SSL", "", 9092),
        EndPoint("CLIENTS", "SASL_SSL", "h", 9093),
        EndPoint("OTHER", "PLAINTEXT", "", 0),
    )
    assert parse_listeners("listeners", "h:1", {}) == (EndPoint("PLAINTEXT", "PLAINTEXT", "h", 1),)
    for text, complaint in (("A://:1,a://:2", "have the name A"), ("A://:1,B://:1", "have the same port")):
        with pytest.raises(BadConfig, match=complaint):
            parse_listeners("listeners", text, {})
    assert host_and_port("x", "[::1]:1") == ("::1", 1)


def cluster(**more: str) -> NodeConfig:
    values = {"controller.quorum.voters": THREE, "cluster.id": "c", "listeners": "a:9092"}
    return NodeConfig.from_settings(values | {key.replace("_", "."): value for key, value in more.items()})


def test_a_node_without_voters_or_with_itself_only_is_alone() -> None:
    assert NodeConfig.from_settings({}).is_alone
    assert NodeConfig.from_settings({"controller.quorum.voters": "1@localhost:9093"}).is_alone
    assert not cluster().is_alone


def test_kafkas_own_example_of_a_single_broker_is_a_node_that_is_alone() -> None:
    values = {
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    }
    assert NodeConfig.from_settings(values).is_alone


def test_a_node_that_names_itself_wrongly_is_told_so() -> None:
    with pytest.raises(BadConfig, match=r"node 3 is at c:9093, but it listens on port 9092"):
        cluster(node_id="3")


def test_a_cluster_without_an_id_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"cluster\.id is missing"):
        cluster(cluster_id="")


def test_a_node_must_be_able_to_report_twice_in_a_session() -> None:
    with pytest.raises(BadConfig, match="at most half"):
        cluster(broker_heartbeat_interval_ms="3500")
