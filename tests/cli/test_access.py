"""`chronik user` and `chronik acl` on a secured node: what they change holds for the next client, and is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.testing import RunningNode
from tests.cli.conftest import Secured


@pytest.fixture(autouse=True, scope="module")
def _topic(secured_node: RunningNode) -> None:
    assert secured_node.command_config is not None
    Secured(secured_node.bootstrap, secured_node.command_config).ok("topic", "create", "orders")


def as_user(admin: Secured, user: str, password: str) -> list[str]:
    return ["--kafka", f"sasl.username={user}", "--kafka", f"sasl.password={password}"]


def test_a_user_is_added_listed_lets_in_and_is_removed(admin: Secured, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("her word\n")
    file = str(tmp_path / "password")

    assert "would add user ann" in admin.ok("user", "add", "ann", "--password-file", file, "--dry-run").out
    assert "ann" not in [row["user"] for row in admin.ok("user", "list", "--json").json]
    assert admin.ok("user", "add", "ann", "--password-file", file).out.startswith("added user ann (SCRAM-SHA-256, ")
    [row] = [row for row in admin.ok("user", "list", "--json").json if row["user"] == "ann"]
    assert row == {
        "user": "ann",
        "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096},
    }
    assert admin.ok("topic", "list", "--json", *as_user(admin, "ann", "her word")).json == []  # ACLs hide it

    told = admin.ok("user", "add", "ann", "--generate", "--mechanism", "SCRAM-SHA-512", "--json").json
    assert "invalid credentials" in admin.refused("topic", "list", *as_user(admin, "ann", "her word"))
    admin.ok("topic", "list", *as_user(admin, "ann", told["password"]))
    assert "did you mean ann?" in admin.refused("user", "remove", "anm", "--yes")
    assert "say --yes" in admin.refused("user", "remove", "ann")
    admin.ok("user", "remove", "ann", "--yes")
    assert "does not let ann in" in admin.refused("topic", "list", *as_user(admin, "ann", told["password"]))


def test_a_rule_is_explained_added_counts_and_is_removed(admin: Secured, tmp_path: Path) -> None:
    word = admin.ok("user", "add", "bob", "--generate", "--json").json["password"]
    asked = ["acl", "explain", "--principal", "User:bob", "--operation", "Write", "--topic", "orders", "--json"]

    told = admin.run(*asked)
    assert told.code == 1
    assert told.json == {
        "allowed": False,
        "reason": "no ACL is about TOPIC orders",
        "missing": "chronik acl add --principal User:bob --operation Write --topic orders",
        "sure": True,
    }
    refused = admin.run("produce", "orders", *as_user(admin, "bob", word), stdin="x\n")
    assert refused.code != 0

    command = told.json["missing"].split()[1:]
    assert admin.ok(*command, "--dry-run").out.startswith("would add ALLOW User:bob WRITE on TOPIC LITERAL:orders")
    assert admin.ok("acl", "list", "--json").json == []
    admin.ok(*command)
    assert "is there already" in admin.ok(*command).out
    admin.ok("produce", "orders", *as_user(admin, "bob", word), stdin="x\n")
    assert admin.ok(*asked).json["reason"] == "ALLOW User:bob WRITE on TOPIC LITERAL:orders from *"

    admin.ok("acl", "add", "--principal", "User:*", "--operation", "all", "--topic", "ord", "--prefixed", "--deny")
    told = admin.run(*asked)
    assert (told.code, told.json["missing"]) == (1, None)
    assert told.json["reason"] == "DENY User:* ALL on TOPIC PREFIXED:ord from *"
    assert len(admin.ok("acl", "list", "--topic", "orders", "--json").json) == 2
    assert "would remove DENY" in admin.ok("acl", "remove", "--topic", "ord", "--prefixed", "--dry-run").out
    admin.ok("acl", "remove", "--topic", "ord", "--prefixed", "--yes")
    admin.ok("acl", "remove", "--principal", "User:bob", "--yes")
    assert admin.ok("acl", "list", "--json").json == []


def test_a_super_user_is_allowed_everything_and_it_is_said_why(admin: Secured) -> None:
    told = admin.ok("acl", "explain", "--principal", "User:admin", "--operation", "Alter", "--cluster")
    assert told.out == "allowed: User:admin is a super user\n"


def test_what_cannot_be_meant_is_refused(admin: Secured) -> None:
    assert "no resource is given" in admin.refused("acl", "add", "--principal", "User:a", "--operation", "Read")
    assert "there is no operation Raed" in admin.refused(
        "acl", "add", "--principal", "User:a", "--operation", "Raed", "--topic", "t"
    )
    assert "no colon is present" in admin.refused(
        "acl", "add", "--principal", "a", "--operation", "Read", "--topic", "t"
    )
    assert "that would be every rule" in admin.refused("acl", "remove", "--yes")
    assert "no rule fits" in admin.refused("acl", "remove", "--topic", "none", "--yes")
    assert "there is no password for eve" in admin.refused("user", "add", "eve")
    assert "is none of SCRAM's" in admin.refused("user", "add", "eve", "--generate", "--mechanism", "PLAIN")
    assert "give --user" in admin.refused("quota", "set", "producer_byte_rate=1")
    assert "there is no limit rate here" in admin.refused("quota", "set", "rate=1", "--user", "a")
    assert "--ip stands alone" in admin.refused("quota", "remove", "x", "--ip", "1.2.3.4", "--user", "a")


def test_a_quota_is_tried_set_listed_and_removed(admin: Secured) -> None:
    of = ["--user", "cid", "--client-id", "<default>"]
    assert admin.ok("quota", "set", "producer_byte_rate=1e6", *of, "--dry-run").out.startswith("would set ")
    assert admin.ok("quota", "list", *of, "--json").json == []
    admin.ok("quota", "set", "producer_byte_rate=1e6", "request_percentage=50", *of)
    assert admin.ok("quota", "list", "--user", "cid", "--json").json == [
        {
            "entity": {"user": "cid", "client-id": None},
            "limits": {"producer_byte_rate": 1e6, "request_percentage": 50.0},
        }
    ]
    admin.ok("quota", "remove", "producer_byte_rate", *of)
    assert "request_percentage" in admin.ok("quota", "list", *of).out
    admin.ok("quota", "remove", "request_percentage", *of)
    assert admin.ok("quota", "list", *of).out == "no quotas\n"
