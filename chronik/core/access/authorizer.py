"""Who may do what, by the ACLs of the metadata log: Kafka's StandardAuthorizer.

A super user may do everything. Otherwise a rule that denies wins over all that allow; without either the answer is no,
unless no rule is about the resource at all and `allow.everyone.if.no.acl.found` is set. To be allowed READ, WRITE,
DELETE or ALTER is to be allowed DESCRIBE too, and ALTER_CONFIGS includes DESCRIBE_CONFIGS; a denial includes nothing.

An answer is kept until the ACLs change. How many are kept is bounded, since clients choose the names they ask about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from chronik.core.access.acls import WILDCARD, Acl, AclPatternType, AclPermission, AclSet, matches_host
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal

ANSWERS_MAX = 50_000
ANY_USER = str(KafkaPrincipal(USER_TYPE, WILDCARD))
ANY_NAME = "hardcode"  # Kafka's: a name that is only asked about to find out what holds where there is no rule

_INCLUDED_IN = {
    AclOperation.DESCRIBE: frozenset(
        (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)),
}


class Ruling(NamedTuple):
    """The answer, and the rule it follows from."""

    is_allowed: bool
    reason: str


class Authorizer:
    """Answers by the ACLs as they are at the moment of the question."""

    def __init__(
        self,
        acls: Callable[[], AclSet],
        super_users: frozenset[KafkaPrincipal] = frozenset(),
        *,
        allows_everyone_without_acl: bool = False,
    ) -> None:
        self._acls = acls  # asked each time: a node that fell behind begins with another set
        self._super_users = super_users
        self._allows_everyone = allows_everyone_without_acl
        self._known: dict[tuple[KafkaPrincipal, str, int, int, str], bool] = {}
        self._known_of: tuple[AclSet | None, int] = (None, 0)

    def is_super(self, principal: KafkaPrincipal) -> bool:
        """Whether it may do everything."""
        return principal in self._super_users

    def is_allowed(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        acls = self._acls()
        known_of = self._known_of
        if known_of[0] is not acls or known_of[1] != acls.version:
            self._known.clear()
            self._known_of = (acls, acls.version)
        question = (principal, host, operation, resource_type, name)
        answer = self._known.get(question)
        if answer is None:
            if len(self._known) >= ANSWERS_MAX:
                self._known.clear()
            answer = self._known[question] = self.ruling(*question).is_allowed
        return answer

    def ruling(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> Ruling:
        """As `is_allowed`, with the reason: for the audit trail and for those that ask why."""
        if principal in self._super_users:
            return Ruling(True, f"{principal} is a super user")
        allowing: Acl | None = None
        is_ruled = False
        for acl in self._acls().about(resource_type, name):
            is_ruled = True
            if not _is_about(acl, str(principal), host, operation):
                continue
            if acl.permission is AclPermission.DENY:
                return Ruling(False, str(acl))
            allowing = acl
        if allowing is not None:
            return Ruling(True, str(allowing))
        if is_ruled:
            return Ruling(False, f"no ACL on {resource_type.name} {name} allows it")
        if self._allows_everyone:
            return Ruling(True, "no ACL is about it (allow.everyone.if.no.acl.found)")
        return Ruling(False, f"no ACL is about {resource_type.name} {name}")

    def is_allowed_on_any(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Whether there is some resource of this type on which it is allowed (Kafka: authorizeByResourceType)."""
        if self.is_allowed(principal, host, operation, resource_type, ANY_NAME):
            return True
        principals = (str(principal), ANY_USER)
        mine = [
            acl
            for acl in self._acls().of_type(resource_type)
            if acl.principal in principals
            and matches_host(acl.host, host)
            and acl.operation in (operation, AclOperation.ALL)
        ]
        denied = [acl for acl in mine if acl.permission is AclPermission.DENY]
        return any(not _is_covered(acl, denied) for acl in mine if acl.permission is AclPermission.ALLOW)

    def allowed_operations(
        self, principal: KafkaPrincipal, host: str, resource_type: AclResourceType, name: str, among: Iterable[int]
    ) -> int:
        """As bits of the operations' numbers, as the authorized-operations fields have them."""
        return sum(
            1 << operation
            for operation in map(AclOperation, among)
            if self.is_allowed(principal, host, operation, resource_type, name)
        )

    def allowed_names(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        names: Iterable[str],
    ) -> Iterator[str]:
        return (name for name in names if self.is_allowed(principal, host, operation, resource_type, name))


def _is_about(acl: Acl, principal: str, host: str, operation: AclOperation) -> bool:
    if acl.principal not in (principal, ANY_USER) or not matches_host(acl.host, host):
        return False
    if acl.operation in (operation, AclOperation.ALL):
        return True
    return acl.permission is AclPermission.ALLOW and acl.operation in _INCLUDED_IN.get(operation, ())


def _is_covered(allowed: Acl, denied: list[Acl]) -> bool:
    """Whether everything that a rule allows is denied by another."""
    for acl in denied:
        if acl.pattern_type is AclPatternType.PREFIXED:
            if allowed.resource_name.startswith(acl.resource_name) and not _is_wildcard(allowed):
                return True
        elif _is_wildcard(acl) or (allowed.pattern_type, allowed.resource_name) == (
            acl.pattern_type,
            acl.resource_name,
        ):
            return True
    return False


def _is_wildcard(acl: Acl) -> bool:
    return acl.pattern_type is AclPatternType.LITERAL and acl.resource_name == WILDCARD
