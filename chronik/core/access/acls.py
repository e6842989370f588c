"""Access control lists as Kafka has them: who may do, or may not do, what to which resources, from where.

An ACL names a resource by a pattern: `LITERAL` (the name itself; `*` stands for all) or `PREFIXED`. Its host is an
address, a network as `10.1.0.0/16`, or `*`. Requests that list or delete ACLs have filters, which may leave anything
open.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.errors import Code, Refused

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"


class AclPatternType(IntEnum):
    """As Kafka's PatternType. `ANY` and `MATCH` are of filters: `MATCH` finds all that apply to a name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(IntEnum):
    """As Kafka's AclPermissionType."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule, whole (Kafka: AclBinding)."""

    resource_type: AclResourceType
    resource_name: str
    pattern_type: AclPatternType
    principal: str  # as `User:alice`; `User:*` is every user
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.principal} {self.operation.name} on {self.resource_type.name}"
            f" {self.pattern_type.name}:{self.resource_name} from {self.host}"
        )


class AclFilter(NamedTuple):
    """Which ACLs are meant (Kafka: AclBindingFilter). None, and ANY, leave a thing open."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (AclPatternType.ANY, AclPatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type is not AclPatternType.MATCH:
            return False
        if acl.pattern_type is AclPatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD

    def check(self) -> None:
        """Raises Refused for one that says what we do not know."""
        if AclResourceType.UNKNOWN is self.resource_type or AclPatternType.UNKNOWN is self.pattern_type:
            raise Refused(Code.INVALID_REQUEST, "Unknown patternFilter.")
        if AclOperation.UNKNOWN is self.operation or AclPermission.UNKNOWN is self.permission:
            raise Refused(Code.INVALID_REQUEST, "Unknown entryFilter.")


def check_new(acl: Acl) -> None:
    """Whether there may be such a rule. Raises Refused, in Kafka's words where Kafka checks it too."""
    if acl.resource_type in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise _invalid(f"Invalid permissionType {acl.permission.name}")
    if not acl.resource_name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type is AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from"
            " the principal name)"
        )
    if not acl.host:
        raise _invalid("Invalid empty host")
    if "/" in acl.host and _network(acl.host) is None:  # a DENY that can never match would fail open
        raise _invalid(f"Invalid host {acl.host}: not a network as 10.1.0.0/16")


def _invalid(message: str) -> Refused:
    return Refused(Code.INVALID_REQUEST, message)


@lru_cache(maxsize=4096)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def matches_host(pattern: str, host: str) -> bool:
    """Whether an ACL for `pattern` is about a client at this address."""
    if pattern in (WILDCARD, host):
        return True
    if "/" not in pattern:
        return False
    network = _network(pattern)
    try:
        return network is not None and ipaddress.ip_address(host) in network
    except ValueError:
        return False


def parse_principal(text: str) -> KafkaPrincipal:
    """`User:alice`. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return KafkaPrincipal(kind, name)


def parse_super_users(text: str) -> frozenset[KafkaPrincipal]:
    """`User:alice;User:CN=node1,O=chronik`: names may have commas. Raises ValueError."""
    return frozenset(parse_principal(part.strip()) for part in text.split(";") if part.strip())


class AclSet:
    """All ACLs of a cluster, found by the resources they are about."""

    def __init__(self) -> None:
        self.version = 0  # larger with each change: what was made of an older one is made anew
        self._by_id: dict[bytes, Acl] = {}
        self._ids: dict[Acl, bytes] = {}
        self._literal: dict[tuple[int, str], dict[Acl, None]] = {}
        self._prefixed: dict[int, dict[str, dict[Acl, None]]] = {}
        self._prefix_sizes: dict[int, dict[int, int]] = {}  # by resource type: how many prefixes are so long

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._ids

    def items(self) -> Iterable[tuple[bytes, Acl]]:
        return self._by_id.items()

    def copy(self) -> AclSet:
        other = AclSet()
        for acl_id, acl in self._by_id.items():
            other.add(acl_id, acl)
        other.version = self.version
        return other

    def clear(self) -> None:
        """Without all; the version goes on."""
        self.version += 1
        for all_of_them in (self._by_id, self._ids, self._literal, self._prefixed, self._prefix_sizes):
            all_of_them.clear()

    def add(self, acl_id: bytes, acl: Acl) -> None:
        if acl_id in self._by_id:
            self.remove(acl_id)
        self.version += 1
        self._by_id[acl_id] = acl
        self._ids[acl] = acl_id
        self._place_of(acl)[acl] = None

    def remove(self, acl_id: bytes) -> None:
        """Nothing happens when there is none with this id."""
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            return
        self.version += 1
        del self._ids[acl]
        place = self._place_of(acl)
        del place[acl]
        if place:
            return
        if acl.pattern_type is AclPatternType.LITERAL:
            del self._literal[acl.resource_type, acl.resource_name]
        else:
            del self._prefixed[acl.resource_type][acl.resource_name]
            sizes = self._prefix_sizes[acl.resource_type]
            sizes[len(acl.resource_name)] -= 1
            if not sizes[len(acl.resource_name)]:
                del sizes[len(acl.resource_name)]

    def _place_of(self, acl: Acl) -> dict[Acl, None]:
        if acl.pattern_type is AclPatternType.LITERAL:
            return self._literal.setdefault((acl.resource_type, acl.resource_name), {})
        prefixes = self._prefixed.setdefault(acl.resource_type, {})
        place = prefixes.get(acl.resource_name)
        if place is None:
            place = prefixes[acl.resource_name] = {}
            sizes = self._prefix_sizes.setdefault(acl.resource_type, {})
            sizes[len(acl.resource_name)] = sizes.get(len(acl.resource_name), 0) + 1
        return place

    def about(self, resource_type: AclResourceType, name: str) -> Iterator[Acl]:
        """Those whose pattern fits this resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        prefixes = self._prefixed.get(resource_type)
        if prefixes:
            for size in self._prefix_sizes[resource_type]:
                if size <= len(name):
                    yield from prefixes.get(name[:size], ())

    def of_type(self, resource_type: AclResourceType) -> Iterator[Acl]:
        return (acl for acl in self._ids if acl.resource_type is resource_type)

    def matching(self, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
        return [(acl_id, acl) for acl_id, acl in self._by_id.items() if wanted.matches(acl)]
