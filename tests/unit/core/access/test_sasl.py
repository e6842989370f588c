"""From a stranger to a principal."""

from __future__ import annotations

import pytest

from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.sasl import PLAIN, SaslLogin, SaslServer
from chronik.core.access.scram import AuthenticationFailed, ScramClient, ScramCredential, ScramMechanism, credential_of
from chronik.core.errors import Code, Refused

SCRAM = "SCRAM-SHA-256"
HERS = credential_of(ScramMechanism.SHA_256, b"hers", b"salt", 4096)


def credentials(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
    return HERS if (user, mechanism) == ("alice", ScramMechanism.SHA_256) else None


class Door:
    """A login, its clock, and who came in."""

    def __init__(self, session_ms: int = 0) -> None:
        self.now_ms = 0
        self.came_in: list[KafkaPrincipal] = []
        users = {"alice": "hers", "bob": "his"}
        server = SaslServer((PLAIN, SCRAM), lambda: "nonce", b"k" * 32, users, credentials, session_ms)
        self.login = SaslLogin(server, lambda: self.now_ms, self.came_in.append)

    @property
    def is_open(self) -> bool:
        return self.login.is_open

    def log_in(self, user: str, password: str) -> None:
        self.login.handshake(PLAIN)
        assert self.login.step(b"\x00".join((b"", user.encode(), password.encode()))) == b""


def test_nobody_is_in_before_the_password_was_right() -> None:
    door = Door()
    seen = [door.is_open]
    door.login.handshake(PLAIN)
    seen.append(door.is_open)
    door.login.step(b"\x00alice\x00hers")
    assert [*seen, door.is_open] == [False, False, True]
    assert door.came_in == [KafkaPrincipal("User", "alice")]


@pytest.mark.parametrize(
    "message",
    [b"", b"alice", b"\x00alice\x00his", b"\x00eve\x00hers", b"bob\x00alice\x00hers", b"\x00\x00hers", b"\x00alice\x00",
     b"\x00alice\x00hers\x00", b"\x00\xff\x00hers", b"\x00alice\x00" + b"x" * 5000],
)  # fmt: skip
def test_plain_lets_nobody_in_but_by_name_and_password(message: bytes) -> None:
    door = Door()
    door.login.handshake(PLAIN)
    with pytest.raises(AuthenticationFailed):
        door.login.step(message)
    assert not door.is_open
    assert door.came_in == []


@pytest.mark.parametrize(
    ("user", "password", "is_in"), [("alice", "hers", True), ("alice", "his", False), ("eve", "", False)]
)
def test_scram_compares_the_proof(user: str, password: str, is_in: bool) -> None:
    door = Door()
    door.login.handshake(SCRAM)
    client = ScramClient(ScramMechanism.SHA_256, user, password, "mine")
    final = client.final(door.login.step(client.first()))
    if is_in:
        client.check(door.login.step(final))
    else:
        with pytest.raises(AuthenticationFailed):
            door.login.step(final)
    assert door.is_open is is_in


def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    door = Door()
    for mechanism in ("SCRAM-SHA-512", "GSSAPI", "plain", ""):
        with pytest.raises(Refused) as caught:
            door.login.handshake(mechanism)
        assert caught.value.code is Code.UNSUPPORTED_SASL_MECHANISM


def test_messages_in_the_wrong_order_are_refused() -> None:
    door = Door()
    with pytest.raises(Refused) as early:
        door.login.step(b"\x00alice\x00hers")
    door.login.handshake(PLAIN)
    with pytest.raises(Refused) as twice:
        door.login.handshake(PLAIN)
    assert early.value.code is twice.value.code is Code.ILLEGAL_SASL_STATE


def test_a_login_ends_and_can_be_renewed_by_the_same_user_only() -> None:
    door = Door(session_ms=1000)
    door.log_in("alice", "hers")
    assert door.login.session_lifetime_ms == 1000
    seen = []
    for door.now_ms in (999, 1000):
        seen.append(door.is_open)
    door.log_in("alice", "hers")
    assert [*seen, door.is_open] == [True, False, True]
    door.login.handshake(PLAIN)
    with pytest.raises(AuthenticationFailed, match="Cannot change principals"):
        door.login.step(b"\x00bob\x00his")


def test_another_mechanism_cannot_renew_it() -> None:
    door = Door(session_ms=1000)
    door.log_in("alice", "hers")
    with pytest.raises(Refused) as caught:
        door.login.handshake(SCRAM)
    assert caught.value.code is Code.SASL_AUTHENTICATION_FAILED


class Users:
    """Credentials that an administrator changes."""

    def __init__(self) -> None:
        self.known: dict[str, ScramCredential] = {"alice": HERS, "bob": HERS}

    def login(self, user: str) -> SaslLogin:
        server = SaslServer(
            (PLAIN, SCRAM), lambda: "nonce", b"k" * 32, {"alice": "hers"}, lambda u, _: self.known.get(u)
        )
        login = SaslLogin(server, lambda: 0, lambda principal: None)
        login.handshake(SCRAM)
        self.client = ScramClient(ScramMechanism.SHA_256, user, "hers", "c")
        self.salted = login.step(self.client.first())
        return login


def test_a_login_is_revoked_when_its_user_is_gone_or_has_another_password() -> None:
    """F71"""
    users = Users()
    logins = {}
    for user in ("alice", "bob"):
        logins[user] = users.login(user)
        logins[user].step(users.client.final(users.salted))
    assert [login.is_revoked for login in logins.values()] == [False, False]

    users.known["alice"] = credential_of(ScramMechanism.SHA_256, b"new", b"salt", 4096)
    assert [login.is_revoked for login in logins.values()] == [True, False]
    del users.known["bob"]
    assert [login.is_revoked for login in logins.values()] == [True, True]


def test_a_user_that_is_removed_while_it_logs_in_is_not_let_in() -> None:
    """F71"""
    users = Users()
    login = users.login("alice")
    del users.known["alice"]
    with pytest.raises(AuthenticationFailed):
        login.step(users.client.final(users.salted))
    assert not login.is_open
