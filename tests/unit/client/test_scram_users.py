"""The first users of a node, as the command line has them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from chronik.cli.serve.plain import read_plainly
from chronik.client.errors import ChronikError
from chronik.client.scram_users import first_users


def test_a_user_gets_both_mechanisms_with_the_password_of_the_files_first_line(tmp_path: Path) -> None:
    """A user gets both mechanisms, with the password in the first line of the file."""
    (tmp_path / "password").write_text("s3cret\nmore\n")

    made = first_users([f"ann=@{tmp_path / 'password'}"], [])

    assert [(one.user, one.mechanism) for one in made] == [("ann", 1), ("ann", 2)]
    for one, name in zip(made, ("sha256", "sha512"), strict=True):
        assert one.salted_password == hashlib.pbkdf2_hmac(name, b"s3cret", one.salt, 4096)
    assert made[0].salt != made[1].salt
    assert "s3cret" not in repr(made)


def test_a_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONIK_USER_PASSWORD", "s3cret")
    (one, _) = first_users(["ann"], [])
    assert one.salted_password == hashlib.pbkdf2_hmac("sha256", b"s3cret", one.salt, 4096)


def test_kafkas_own_form_is_understood() -> None:
    salt, salted = base64.b64encode(b"salt").decode(), base64.b64encode(b"salted").decode()

    (plain,) = first_users([], ["SCRAM-SHA-512=[name=ann,password=s3cret,iterations=8192]"])
    (ready,) = first_users([], [f'SCRAM-SHA-256=[name="ann",salt="{salt}",saltedpassword="{salted}"]'])

    assert (plain.mechanism, plain.iterations) == (2, 8192)
    assert plain.salted_password == hashlib.pbkdf2_hmac("sha512", b"s3cret", plain.salt, 8192)
    assert (ready.mechanism, ready.salt, ready.salted_password) == (1, b"salt", b"salted")


@pytest.mark.parametrize(
    ("add_user", "add_scram"),
    [
        ("=s3cret", ""),
        ("ann=", ""),
        ("ann=@/nowhere/s3cret-file", ""),
        ("", "SCRAM-SHA-1=[name=ann,password=s3cret]"),
        ("", "SCRAM-SHA-256=[password=s3cret]"),
        ("", "SCRAM-SHA-256=[name=ann,password=s3cret,iterations=1]"),
        ("", "SCRAM-SHA-256=[name=ann,saltedpassword=c2FsdA==]"),
        ("", "SCRAM-SHA-256=[name=ann,pasword=s3cret]"),
    ],
)
def test_what_cannot_be_read_is_refused_without_the_password(add_user: str, add_scram: str) -> None:
    with pytest.raises(ChronikError) as raised:
        first_users([add_user] if add_user else [], [add_scram] if add_scram else [])
    assert "s3cret" not in str(raised.value).replace("/nowhere/s3cret-file", "")


def test_users_do_not_keep_a_node_from_its_quick_start() -> None:
    request = read_plainly(["--add-user", "ann=@file", "--add-scram=SCRAM-SHA-256=[name=x,password=y]"])
    assert request is not None
    assert (list(request.add_user), list(request.add_scram)) == (["ann=@file"], ["SCRAM-SHA-256=[name=x,password=y]"])
