"""ACLs, and filters of them."""

from __future__ import annotations

import pytest

from chronik.core.access.acls import (
    Acl,
    AclFilter,
    AclPatternType,
    AclPermission,
    AclSet,
    check_new,
    matches_host,
    parse_principal,
    parse_super_users,
)
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.errors import Code, Refused

READ_ORDERS = Acl(
    AclResourceType.TOPIC,
    "orders",
    AclPatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
WRITE_PREFIX = READ_ORDERS._replace(
    resource_name="ord", pattern_type=AclPatternType.PREFIXED, operation=AclOperation.WRITE
)
DENY_ALL = READ_ORDERS._replace(resource_name="*", permission=AclPermission.DENY, principal="User:*")


def a_set(*acls: Acl) -> AclSet:
    made = AclSet()
    for number, acl in enumerate(acls):
        made.add(number.to_bytes(16, "big"), acl)
    return made


def found(acls: AclSet, **wanted: object) -> list[Acl]:
    return [acl for _, acl in acls.matching(AclFilter(**wanted))]  # type: ignore[arg-type]  # of a test


def test_a_resource_finds_the_rules_with_its_name_its_prefixes_and_the_wildcard() -> None:
    acls = a_set(READ_ORDERS, WRITE_PREFIX, DENY_ALL, READ_ORDERS._replace(resource_name="other"))
    about = set(acls.about(AclResourceType.TOPIC, "orders"))
    assert about == {READ_ORDERS, WRITE_PREFIX, DENY_ALL}
    assert set(acls.about(AclResourceType.TOPIC, "ord")) == {WRITE_PREFIX, DENY_ALL}
    assert set(acls.about(AclResourceType.TOPIC, "or")) == {DENY_ALL}
    assert set(acls.about(AclResourceType.GROUP, "orders")) == set()


def test_a_rule_that_is_removed_is_found_no_more_and_the_version_moves() -> None:
    acls = a_set(WRITE_PREFIX, READ_ORDERS)
    before = acls.version
    acls.remove((0).to_bytes(16, "big"))
    assert acls.version > before
    assert list(acls.about(AclResourceType.TOPIC, "ordinary")) == []
    assert WRITE_PREFIX not in acls
    assert READ_ORDERS in acls
    assert len(acls) == 1


def test_a_copy_goes_its_own_way() -> None:
    acls = a_set(READ_ORDERS)
    copied = acls.copy()
    acls.clear()
    assert list(copied.about(AclResourceType.TOPIC, "orders")) == [READ_ORDERS]
    assert not len(acls)


def test_a_filter_that_leaves_all_open_finds_all() -> None:
    assert found(a_set(READ_ORDERS, WRITE_PREFIX, DENY_ALL)) == [READ_ORDERS, WRITE_PREFIX, DENY_ALL]


def test_any_pattern_with_a_name_finds_that_very_name_and_match_all_that_apply_to_it() -> None:
    acls = a_set(READ_ORDERS, WRITE_PREFIX, DENY_ALL)
    assert found(acls, resource_name="orders", pattern_type=AclPatternType.ANY) == [READ_ORDERS]
    assert found(acls, resource_name="orders", pattern_type=AclPatternType.MATCH) == [
        READ_ORDERS,
        WRITE_PREFIX,
        DENY_ALL,
    ]
    assert found(acls, resource_name="ord", pattern_type=AclPatternType.PREFIXED) == [WRITE_PREFIX]
    assert found(acls, resource_name="ord", pattern_type=AclPatternType.LITERAL) == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"principal": "User:alice"}, [READ_ORDERS, WRITE_PREFIX]),
        ({"host": "10.0.0.1"}, []),
        ({"operation": AclOperation.WRITE}, [WRITE_PREFIX]),
        ({"permission": AclPermission.DENY}, [DENY_ALL]),
        ({"resource_type": AclResourceType.GROUP}, []),
    ],
)
def test_each_part_of_a_filter_counts(wanted: dict[str, object], expected: list[Acl]) -> None:
    assert found(a_set(READ_ORDERS, WRITE_PREFIX, DENY_ALL), **wanted) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": AclResourceType.ANY},
        {"pattern_type": AclPatternType.MATCH},
        {"operation": AclOperation.ANY},
        {"permission": AclPermission.UNKNOWN},
        {"resource_name": ""},
        {"resource_type": AclResourceType.CLUSTER},
        {"principal": "alice"},
        {"host": "10.0.0.0/99"},
        {"host": ""},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    check_new(READ_ORDERS)
    with pytest.raises(Refused) as refused:
        check_new(READ_ORDERS._replace(**change))  # type: ignore[arg-type]  # of a test
    assert refused.value.code is Code.INVALID_REQUEST


def test_a_filter_of_an_unknown_kind_is_refused() -> None:
    AclFilter().check()
    for unknown in (
        AclFilter(resource_type=AclResourceType.UNKNOWN),
        AclFilter(pattern_type=AclPatternType.UNKNOWN),
        AclFilter(operation=AclOperation.UNKNOWN),
        AclFilter(permission=AclPermission.UNKNOWN),
    ):
        with pytest.raises(Refused):
            unknown.check()


@pytest.mark.parametrize(
    ("pattern", "host", "is_match"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/24", "10.0.0.77", True),
        ("10.0.0.0/24", "10.0.1.77", False),
        ("fd00::/8", "fd12::1", True),
        ("10.0.0.0/8", "fd12::1", False),
        ("10.0.0.0/8", "", False),
    ],
)
def test_hosts_are_addresses_networks_or_all(pattern: str, host: str, is_match: bool) -> None:
    assert matches_host(pattern, host) is is_match


def test_super_users_are_separated_by_semicolons_since_names_have_commas() -> None:
    parsed = parse_super_users("User:admin; User:CN=n1,O=chronik")
    assert parsed == {KafkaPrincipal("User", "admin"), KafkaPrincipal("User", "CN=n1,O=chronik")}
    assert parse_principal("User:a:b") == KafkaPrincipal("User", "a:b")
    with pytest.raises(ValueError, match="principalType:principalName"):
        parse_super_users("admin")
