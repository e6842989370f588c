"""Addresses, and what a failed connection is called."""

from __future__ import annotations

import socket

import pytest

from chronik.client.connecting import check_reachable, client_settings, explain, parse_addresses, plain_errors, reason
from chronik.client.errors import ChronikError, RefusedByNode


def test_addresses_are_hosts_with_ports_and_kafkas_port_where_there_is_none() -> None:
    assert parse_addresses("a:1, b:2") == [("a", 1), ("b", 2)]
    assert parse_addresses("localhost") == [("localhost", 9092)]
    assert parse_addresses("[::1]:9093,[::1]") == [("::1", 9093), ("::1", 9092)]


@pytest.mark.parametrize("text", ["host:port", "host:0", "host:70000", ":9092", "host:", "a..b:1", "x" * 64])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ChronikError, match="is not an address; write it as HOST:PORT"):
        parse_addresses(text)


def test_a_host_may_have_letters_of_any_alphabet_and_end_in_a_dot() -> None:
    assert parse_addresses("größe.example.:1") == [("größe.example.", 1)]


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ChronikError, match="names no address"):
        parse_addresses(" , ")


def test_a_port_where_nobody_listens_is_no_node_and_says_how_to_start_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(
        ChronikError, match=f"no Kafka node answers at 127.0.0.1:{port}; start one with `chronik serve`"
    ):
        check_reachable(f"127.0.0.1:{port}")


def test_one_address_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        dead_port = dead.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as alive:
        check_reachable(f"127.0.0.1:{dead_port},127.0.0.1:{alive.getsockname()[1]}")


def test_ipv6_addresses_reach_the_client_in_brackets() -> None:
    assert client_settings("[::1]:9092,b")["bootstrap.servers"] == "[::1]:9092,b:9092"


def test_errors_of_the_client_are_said_in_plain_words() -> None:
    from confluent_kafka import KafkaError

    assert "no Kafka node answers at h:1" in str(explain(KafkaError(KafkaError._ALL_BROKERS_DOWN), "h:1"))
    assert "h:1 does not answer in time" in str(explain(KafkaError(KafkaError._TIMED_OUT), "h:1"))
    refused = explain(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS), "h:1")
    assert isinstance(refused, RefusedByNode)
    assert refused.code == KafkaError.TOPIC_ALREADY_EXISTS


def test_a_number_out_of_range_is_bad_input_and_text_that_is_none_is_no_number() -> None:
    with pytest.raises(ChronikError, match="give a number within that range"), plain_errors("h:1"):
        raise ValueError("must be below 100")
    with pytest.raises(UnicodeError), plain_errors("h:1"):
        "\udcff".encode()


def test_a_reason_is_the_nodes_words_and_the_errors_name() -> None:
    from confluent_kafka import KafkaError

    error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "Broker: too large")
    assert reason(error) == "too large (MSG_SIZE_TOO_LARGE)"
