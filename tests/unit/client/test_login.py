"""The client's side of SASL, against the node's own: what is said, and what becomes of a refusal."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from chronik.client.login import LoginRefused, log_in
from chronik.client.security import Security
from chronik.client.tokens import TokenSource
from chronik.core.access.sasl import PlainExchange
from chronik.core.access.scram import (
    SCRAM_MECHANISMS,
    AuthenticationFailed,
    ScramExchange,
    credential_of,
)

HANDSHAKE, AUTHENTICATE = 17, 36


class Node:
    """Answers SaslHandshake and SaslAuthenticate by one exchange."""

    def __init__(self, step: Callable[[bytes], bytes], mechanisms: tuple[str, ...]) -> None:
        self._step = step
        self._mechanisms = mechanisms
        self.messages: list[bytes] = []

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        if api_key == HANDSHAKE:
            name = body[2:].decode()
            names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in self._mechanisms)
            code = 0 if name in self._mechanisms else 33
            return struct.pack(">hi", code, len(self._mechanisms)) + names
        assert (api_key, version) == (AUTHENTICATE, 0)
        message = body[4:]
        self.messages.append(message)
        try:
            answer = self._step(message)
        except AuthenticationFailed as problem:
            words = str(problem).encode()
            return struct.pack(">hh", 58, len(words)) + words + struct.pack(">i", 0)
        return struct.pack(">hhi", 0, -1, len(answer)) + answer


def scram_node(mechanism: str, password: str) -> Node:
    known = SCRAM_MECHANISMS[mechanism]
    credential = credential_of(known, password.encode(), b"salt", 4096)
    exchange = ScramExchange(known, lambda user: credential if user == "ann" else None, "ours", b"decoy")
    return Node(exchange.step, (mechanism,))


def of(mechanism: str, password: str = "s3cret") -> Security:
    return Security("SASL_PLAINTEXT", mechanism=mechanism, username="ann", password=password)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_scram_shows_that_the_password_is_known_and_never_sends_it(mechanism: str) -> None:
    node = scram_node(mechanism, "s3cret")

    log_in(of(mechanism), node.ask)

    assert len(node.messages) == 2
    assert b"s3cret" not in b"".join(node.messages)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_a_wrong_password_is_refused_without_repeating_it(mechanism: str) -> None:
    with pytest.raises(LoginRefused, match="does not let ann in: invalid credentials") as raised:
        log_in(of(mechanism, "wr0ng"), scram_node(mechanism, "s3cret").ask)
    assert "wr0ng" not in str(raised.value)


def test_a_node_that_does_not_know_the_password_itself_is_not_believed() -> None:
    """A node that does not know the password is not believed, whatever it answers."""
    node = scram_node("SCRAM-SHA-256", "s3cret")
    honest = node._step
    node._step = lambda message: b"v=bGllcw==" if node.messages[1:] else honest(message)

    with pytest.raises(LoginRefused, match="the server does not know the password"):
        log_in(of("SCRAM-SHA-256"), node.ask)


def test_plain_sends_name_and_password() -> None:
    node = Node(PlainExchange({"ann": "s3cret"}).step, ("PLAIN",))
    log_in(of("PLAIN"), node.ask)
    assert node.messages == [b"\x00ann\x00s3cret"]


def test_a_mechanism_that_is_not_taken_is_answered_with_those_that_are() -> None:
    node = Node(lambda _: b"", ("SCRAM-SHA-512", "OAUTHBEARER"))
    with pytest.raises(LoginRefused, match="it does not take PLAIN, but SCRAM-SHA-512, OAUTHBEARER"):
        log_in(of("PLAIN"), node.ask)


def test_a_token_is_sent_as_the_standard_has_it(tmp_path: object) -> None:
    file = f"{tmp_path}/token"
    with open(file, "w") as out:
        out.write("a.b.c\n")
    node = Node(lambda _: b"", ("OAUTHBEARER",))

    log_in(Security("SASL_SSL", mechanism="OAUTHBEARER", token=TokenSource(file=file)), node.ask)

    assert node.messages == [b"n,,\x01auth=Bearer a.b.c\x01\x01"]


def test_a_token_that_is_refused_is_no_login_whatever_the_node_says_next(tmp_path: object) -> None:
    """A token that is refused is no login, also where the node forgets to say so a second time."""
    file = f"{tmp_path}/token"
    with open(file, "w") as out:
        out.write("a.b.c")
    node = Node(lambda _: b"" if node.messages[1:] else b'{"status":"invalid_token"}', ("OAUTHBEARER",))

    with pytest.raises(LoginRefused, match="does not let the token in"):
        log_in(Security("SASL_SSL", mechanism="OAUTHBEARER", token=TokenSource(file=file)), node.ask)

    assert node.messages[1:] == [b"\x01"]


def test_an_answer_that_is_cut_short_is_no_login() -> None:
    with pytest.raises(LoginRefused, match="cannot be read"):
        log_in(of("PLAIN"), lambda *_: b"\x00")
