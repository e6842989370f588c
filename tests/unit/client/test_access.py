"""What is said of a right: by the node's own authorizer, with the rule that is missing, and whether that is sure."""

from __future__ import annotations

from chronik.cli.acl import command_for
from chronik.client.access import explain
from chronik.core.access.acls import Acl, AclPatternType, AclPermission, parse_principal
from chronik.core.access.operations import AclOperation, AclResourceType

ANN = parse_principal("User:ann")
KNOWN = {"super.users": "User:root", "allow.everyone.if.no.acl.found": "false"}


def rule(operation: AclOperation, permission: AclPermission = AclPermission.ALLOW, host: str = "*") -> Acl:
    return Acl(AclResourceType.TOPIC, "t", AclPatternType.LITERAL, "User:ann", host, operation, permission)


def test_a_rule_for_another_host_is_none_and_the_missing_one_is_named() -> None:
    told = explain(
        [rule(AclOperation.READ, host="10.1.0.0/16")],
        KNOWN,
        ANN,
        "10.2.0.1",
        AclOperation.READ,
        AclResourceType.TOPIC,
        "t",
    )
    assert (told.is_allowed, told.is_sure) == (False, True)
    assert told.missing is not None
    assert command_for(told.missing) == "chronik acl add --principal User:ann --operation Read --topic t"


def test_to_read_includes_to_describe() -> None:
    told = explain([rule(AclOperation.READ)], KNOWN, ANN, "h", AclOperation.DESCRIBE, AclResourceType.TOPIC, "t")
    assert (told.is_allowed, told.missing) == (True, None)


def test_a_denial_is_named_and_no_rule_is_missing() -> None:
    rules = [rule(AclOperation.READ), rule(AclOperation.READ, AclPermission.DENY)]
    told = explain(rules, KNOWN, ANN, "h", AclOperation.READ, AclResourceType.TOPIC, "t")
    assert (told.is_allowed, told.missing) == (False, None)
    assert told.reason.startswith("DENY User:ann READ")


def test_where_super_users_are_not_shown_a_refusal_is_not_sure() -> None:
    for shown in ({}, {"super.users": None}):  # Kafka names it, and hides what it is
        told = explain([], shown, ANN, "h", AclOperation.READ, AclResourceType.TOPIC, "t")
        assert (told.is_allowed, told.is_sure) == (False, False)


def test_everything_is_allowed_where_no_rule_is_and_the_cluster_says_so() -> None:
    settings = KNOWN | {"allow.everyone.if.no.acl.found": "true"}
    told = explain([], settings, ANN, "h", AclOperation.READ, AclResourceType.TOPIC, "t")
    assert told.is_allowed
