"""Free ports: different ones, that can be listened on, and that no outgoing connection takes in between."""

from __future__ import annotations

import contextlib
import socket

import pytest

from chronik.shell.ports import HIGHEST, LOWEST, free_ports, is_taken


def test_free_ports_are_different_and_can_all_be_listened_on() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))


def test_free_ports_are_not_among_those_of_outgoing_connections() -> None:
    assert all(LOWEST <= port < HIGHEST for port in free_ports(20))


def test_more_ports_than_there_are_is_an_error() -> None:
    with pytest.raises(OSError, match="no 100000 free ports"):
        free_ports(100_000)


def test_a_port_is_taken_while_something_listens_on_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_taken("127.0.0.1", port)

    assert not is_taken("127.0.0.1", port)


def test_a_port_on_which_a_closed_connection_lingers_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()  # the side that closes first is the one that lingers

    assert not is_taken("127.0.0.1", port)
