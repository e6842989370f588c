"""ACLs between the wire and the core: what the three requests about them have in common."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

from chronik.api.context import RequestContext
from chronik.core.access.acls import Acl, AclFilter, AclPatternType, AclPermission
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused

E = TypeVar("E", bound=IntEnum)
_UNKNOWN = 0


def check_enabled(context: RequestContext) -> None:
    """Raises Refused, as a Kafka without an authorizer: rules that nothing asks about are not to be made."""
    if context.authorizer is None:
        raise Refused(Code.SECURITY_DISABLED, "No Authorizer is configured.")


def known(kind: type[E], number: int) -> E:
    """A number that we do not know is UNKNOWN."""
    try:
        return kind(number)
    except ValueError:
        return kind(_UNKNOWN)


def acl_of(creation: Any) -> Acl:
    """The rule that an entry of CreateAcls asks for."""
    return Acl(
        known(AclResourceType, creation.resource_type),
        creation.resource_name,
        known(AclPatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        known(AclOperation, creation.operation),
        known(AclPermission, creation.permission_type),
    )


def filter_of(wanted: Any) -> AclFilter:
    """The filter in DescribeAcls, or in an entry of DeleteAcls: they have the same fields."""
    return AclFilter(
        known(AclResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        known(AclPatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        known(AclOperation, wanted.operation),
        known(AclPermission, wanted.permission_type),
    )
