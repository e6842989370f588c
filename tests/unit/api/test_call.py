"""A request on its way, and what is known of its connection."""

from __future__ import annotations

from typing import Any

from chronik.api.call import Call, Peer
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal
from chronik.wire.framing import RequestHeader
from tests.unit.api.calls import KeptAnswer

HEADER = RequestHeader(3, 9, 1, "app", 0)


def call_by(peer: Peer) -> Call:
    kept: list[Any] = []
    return Call(memoryview(b"frame"), HEADER, peer, KeptAnswer(kept.append))


def test_a_caller_has_its_principal_and_its_listener() -> None:
    peer = Peer(1, "10.0.0.7", "EXTERNAL")

    caller = call_by(peer).caller

    assert (caller.principal, caller.listener) == (ANONYMOUS, "EXTERNAL")


def test_a_principal_holds_for_the_requests_that_follow_its_authentication() -> None:
    peer = Peer(1, "10.0.0.7")
    before = call_by(peer).caller

    peer.authenticate_as(KafkaPrincipal("User", "alice"))

    assert before.principal is ANONYMOUS
    assert call_by(peer).caller.principal == KafkaPrincipal("User", "alice")


def test_a_connection_is_a_nodes_from_the_request_on_that_says_so() -> None:
    peer = Peer(1, "10.0.0.7")
    call = call_by(peer)

    call.identify_as_node(3)

    assert (call.caller.is_node, call.caller.node_id) == (True, 3)
    assert call_by(peer).caller is call.caller


def test_a_call_that_waits_does_not_keep_its_frame() -> None:
    call = call_by(Peer(1, "10.0.0.7"))

    call.release_frame()

    assert len(call.frame) == 0
