"""Who may ask the HTTP port: a token of the file, or a user of the cluster with ALTER on it; open paths are open."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from chronik.core.access.acls import Acl, AclPatternType, AclPermission, AclSet
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.scram import ScramMechanism, credential_of
from chronik.shell.http_access import HttpAccess

TOKEN = "t0ken-of-a-good-length"
ANN = credential_of(ScramMechanism.SHA_256, b"s3cret", b"salt", 4096)


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"shown"})


def asked(access: HttpAccess, authorization: str | None = None, path: str = "/state") -> tuple[int, str]:
    """Status and body."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if authorization is None else [(b"authorization", authorization.encode())]
    scope = {"type": "http", "path": path, "headers": headers, "client": ("10.0.0.1", 5)}
    asyncio.run(access(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], sent[1]["body"].decode()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def of_users(*rules: Acl) -> HttpAccess:
    acls = AclSet()
    for number, rule in enumerate(rules):
        acls.add(bytes([number]), rule)
    known = {("ann", ScramMechanism.SHA_256): ANN}
    return HttpAccess(application, credentials=lambda *key: known.get(key), authorizer=Authorizer(lambda: acls))


def test_a_token_of_the_file_is_let_in_and_a_new_one_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\nshort\n")
    access = HttpAccess(application, token_file=str(file))

    assert asked(access, f"Bearer {TOKEN}") == (200, "shown")
    for wrong in (None, "Bearer wrong-token-of-some-length", "Bearer short", "Bearer ", basic("ann", TOKEN)):
        status, body = asked(access, wrong)
        assert status == 401
        assert TOKEN not in body
    file.write_text("another-token-of-a-good-length")
    assert asked(access, f"Bearer {TOKEN}")[0] == 401
    assert asked(access, "Bearer another-token-of-a-good-length")[0] == 200


def test_a_file_that_is_gone_lets_nothing_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert asked(HttpAccess(application, token_file=str(tmp_path / "missing")), f"Bearer {TOKEN}")[0] == 401
    assert "http.token.file cannot be read" in caplog.text
    assert TOKEN not in caplog.text


def test_a_user_needs_its_password_and_alter_on_the_cluster() -> None:
    right = Acl(
        AclResourceType.CLUSTER,
        "kafka-cluster",
        AclPatternType.LITERAL,
        "User:ann",
        "10.0.0.0/8",
        AclOperation.ALTER,
        AclPermission.ALLOW,
    )
    assert asked(of_users(right), basic("ann", "s3cret")) == (200, "shown")
    status, body = asked(of_users(), basic("ann", "s3cret"))
    assert (status, "User:ann needs ALTER on the cluster" in body) == (403, True)
    for wrong in (basic("ann", "wr0ng"), basic("bob", ""), "Basic !", "Basic YW5u", f"Bearer {TOKEN}", "Digest x"):
        status, body = asked(of_users(right), wrong)
        assert status == 401, wrong
        assert "wr0ng" not in body


def test_a_path_that_is_open_needs_nothing(tmp_path: Path) -> None:
    access = HttpAccess(application, token_file=str(tmp_path / "t"), open_paths=frozenset({"/metrics"}))
    assert asked(access, path="/metrics")[0] == 200
    assert asked(access, path="/metrics/")[0] == 401
    assert asked(access, path="/state")[0] == 401
