"""The commands on a node with TLS, logins and ACLs: let in, refused in words, and no secret where others can see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.testing import RunningNode
from tests.cli.conftest import Chronik, Secured


@pytest.fixture
def stranger(secured_node: RunningNode) -> Chronik:
    return Chronik(secured_node.bootstrap)


@pytest.fixture(scope="module")
def topic(secured_node: RunningNode) -> str:
    assert secured_node.command_config is not None
    chronik = Secured(secured_node.bootstrap, secured_node.command_config)
    chronik.ok("topic", "create", "sales", "--partitions", "1", "--config", "chronik.trace=true")
    chronik.ok("produce", "sales", stdin="one\ntwo\n")
    assert chronik.ok("consume", "sales", "--from-beginning", "--max-messages", "2", "--group", "g").out == "one\ntwo\n"
    return "sales"


def test_the_administrator_does_everything(admin: Secured, topic: str) -> None:
    assert topic in [row["topic"] for row in admin.ok("topic", "list", "--json").json]
    assert admin.ok("group", "describe", "g", "--json").json["lag"] == 0
    assert admin.ok("where", topic, "0", "1", "--json").json["place"] == "here"
    assert admin.ok("watch", "--once", "--json").json["stalls"] == []
    assert admin.ok("trace", "status", "--json").code == 0
    assert admin.ok("transaction", "list", "--json").json == []


@pytest.mark.parametrize("client", ["kafka-python", "confluent", "aiokafka"])
def test_a_run_is_verified_with_each_client(admin: Secured, client: str, tmp_path: Path) -> None:
    history = str(tmp_path / "history.db")
    report = admin.run("verify", "--messages", "60", "--client", client, "--history", history, "--json").json
    assert (report["verdict"], report["consumed"]) == ("pass", 60)


def test_a_program_without_a_login_is_told_what_the_node_wants(stranger: Chronik, topic: str) -> None:
    for command in (("topic", "list"), ("where", topic, "0", "0"), ("transaction", "list"), ("stalls",), ("verify",)):
        words = stranger.refused(*command)
        assert "wants an encrypted connection (security.protocol=SSL or SASL_SSL)" in words, command
        assert "--command-config FILE" in words


def test_what_does_not_fit_is_said_and_no_password_with_it(admin: Secured) -> None:
    assert "it does not let admin in: invalid credentials" in admin.refused(
        "topic", "list", "--kafka", "sasl.password=wr0ng", "--kafka", "sasl.username=admin"
    )
    words = admin.refused("topic", "list", "--kafka", "sasl.mechanism=PLAIN")
    assert "it does not take PLAIN, but SCRAM-SHA-512, SCRAM-SHA-256" in words
    assert "no setting ssl.trustore.location" in admin.refused("group", "list", "--kafka", "ssl.trustore.location=x")


def test_passwords_are_in_no_process_list_and_no_log(secured_node: RunningNode, admin: Secured, topic: str) -> None:
    assert secured_node.secured is not None
    password = secured_node.secured.password_file.read_text().strip()
    secrets = [password.encode(), b"-----BEGIN PRIVATE KEY-----"]
    with admin.running("consume", topic, "--group", "h") as consuming:
        for pid in (secured_node.pid, consuming.pid):
            seen = Path(f"/proc/{pid}/cmdline").read_bytes()
            assert not any(secret in seen for secret in secrets)
    log = Path(secured_node.log_path).read_bytes()
    assert b"made the first users: admin" in log
    assert not any(secret in log for secret in secrets)
    for file in secured_node.secured.folder.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
