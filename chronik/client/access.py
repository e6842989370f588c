"""Users of SCRAM, ACLs and quotas of a cluster, over Kafka's own requests: any Kafka since 3.3 knows them.

What an ACL means is decided by the node's own authorizer (core/access), so what `explain` says is what the node does.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronik.client.cluster_view import view_of
from chronik.client.connecting import check_reachable, not_let_in, parse_addresses, unanswered
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.request import NoAnswer, NotLetIn, ask
from chronik.core.access.acls import Acl, AclFilter, AclPatternType, AclPermission, AclSet, parse_super_users
from chronik.core.access.authorizer import Authorizer, Ruling
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.scram import ScramMechanism
from chronik.core.errors import Code
from chronik.core.machines.metadata.access_changes import ScramUpsertion

TIMEOUT_S = 30.0
BROKER = 4  # the kind of a resource that has settings
SUPER_USERS, ALLOWED_WITHOUT, AUTHORIZER = "super.users", "allow.everyone.if.no.acl.found", "authorizer.class.name"


@dataclass(frozen=True)
class ScramUser:
    name: str
    iterations: Mapping[str, int]
    """By mechanism."""


@dataclass(frozen=True)
class Explanation:
    """Whether something is allowed, by which rule, and what would allow it."""

    is_allowed: bool
    reason: str
    missing: Acl | None
    """The rule that would allow it, where none does."""
    is_sure: bool
    """Whether the cluster says which its super users are: Apache Kafka does not."""


class AccessAdmin:
    """One cluster, asked through any of its nodes. Raises ChronikError; refusals come out as RefusedByNode."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        check_reachable(bootstrap)

    def _ask(self, request: Any) -> Any:
        problem: ChronikError | None = None
        for address in parse_addresses(self._bootstrap):
            try:
                return ask(address, request, TIMEOUT_S)
            except NotLetIn as refused:
                raise not_let_in(refused) from None
            except NoAnswer as silent:
                problem = ChronikError(str(silent), "check --bootstrap; an old Kafka does not know this request")
        assert problem is not None
        raise unanswered(self._bootstrap, problem)

    # --- users

    def users(self) -> list[ScramUser]:
        from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest

        answer = self._ask(DescribeUserScramCredentialsRequest(users=None))
        _check(answer.error_code, answer.error_message, "users")
        return sorted(
            (
                ScramUser(
                    one.user,
                    {ScramMechanism(each.mechanism).sasl_name: each.iterations for each in one.credential_infos},
                )
                for one in answer.results
            ),
            key=lambda user: user.name,
        )

    def add_user(self, credentials: Iterable[ScramUpsertion]) -> None:
        """Or change its password: one request for each mechanism, since one may name a user once only."""
        from kio.schema.alter_user_scram_credentials.v0.request import (
            AlterUserScramCredentialsRequest,
            ScramCredentialUpsertion,
        )
        from kio.static.primitive import i8, i32

        for one in credentials:
            made = ScramCredentialUpsertion(
                name=one.user,
                mechanism=i8(one.mechanism),
                iterations=i32(one.iterations),
                salt=one.salt,
                salted_password=one.salted_password,
            )
            self._altered(AlterUserScramCredentialsRequest(deletions=(), upsertions=(made,)))

    def remove_user(self, name: str, mechanisms: Iterable[ScramMechanism]) -> None:
        from kio.schema.alter_user_scram_credentials.v0.request import (
            AlterUserScramCredentialsRequest,
            ScramCredentialDeletion,
        )
        from kio.static.primitive import i8

        for mechanism in mechanisms:
            gone = ScramCredentialDeletion(name=name, mechanism=i8(int(mechanism)))
            self._altered(AlterUserScramCredentialsRequest(deletions=(gone,), upsertions=()))

    def _altered(self, request: Any) -> None:
        for one in self._ask(request).results:
            _check(one.error_code, one.error_message, f"user {one.user}")

    # --- ACLs

    def acls(self, wanted: AclFilter) -> list[Acl]:
        from kio.schema.describe_acls.v3.request import DescribeAclsRequest

        answer = self._ask(DescribeAclsRequest(**_filter_fields(wanted)))
        _check(answer.error_code, answer.error_message, "ACLs")
        found = [_acl_of(on, rule) for on in answer.resources for rule in on.acls]
        return sorted(found, key=str)

    def add_acls(self, rules: Sequence[Acl]) -> None:
        from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
        from kio.static.primitive import i8

        creations = tuple(
            AclCreation(
                resource_type=i8(int(rule.resource_type)),
                resource_name=rule.resource_name,
                resource_pattern_type=i8(int(rule.pattern_type)),
                principal=rule.principal,
                host=rule.host,
                operation=i8(int(rule.operation)),
                permission_type=i8(int(rule.permission)),
            )
            for rule in rules
        )
        results = self._ask(CreateAclsRequest(creations=creations)).results
        for rule, result in zip(rules, results, strict=True):
            _check(result.error_code, result.error_message, str(rule))

    def remove_acls(self, rules: Sequence[Acl]) -> None:
        """Exactly these."""
        from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest

        filters = tuple(DeleteAclsFilter(**_filter_fields(AclFilter(*rule))) for rule in rules)
        for rule, result in zip(rules, self._ask(DeleteAclsRequest(filters=filters)).filter_results, strict=True):
            _check(result.error_code, result.error_message, str(rule))

    def explain(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, kind: AclResourceType, name: str
    ) -> Explanation:
        """What the cluster's authorizer answers to this, and why."""
        settings = self._node_settings()
        try:
            rules = self.acls(AclFilter())
        except RefusedByNode as refused:
            if refused.code != Code.SECURITY_DISABLED:
                raise
            return Explanation(True, "the cluster has no authorizer: everything is allowed", None, is_sure=True)
        return explain(rules, settings, principal, host, operation, kind, name)

    def _node_settings(self) -> dict[str, str | None]:
        """What one of the nodes shows of the settings that authorization goes by; one that it does not show is left
        out."""
        from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
        from kio.static.primitive import i8

        names = (SUPER_USERS, ALLOWED_WITHOUT, AUTHORIZER)
        for address in parse_addresses(self._bootstrap):
            try:
                node_id, reached = min(view_of(address, TIMEOUT_S).addresses.items())
                resource = DescribeConfigsResource(
                    resource_type=i8(BROKER), resource_name=str(node_id), configuration_keys=names
                )
                (found,) = ask(reached, DescribeConfigsRequest(resources=(resource,)), TIMEOUT_S).results
            except NoAnswer:
                continue
            _check(found.error_code, found.error_message, f"settings of node {node_id}")
            return {one.name: one.value for one in found.configs if one.name in names}
        return {}

    # --- quotas

    def quotas(self, entity: Mapping[str, str | None]) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """Those of entities that have these parts; None for a name is the default of its kind."""
        from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
        from kio.static.primitive import i8

        exact, default = 0, 1
        components = tuple(
            ComponentData(entity_type=kind, match_type=i8(default if name is None else exact), match=name)
            for kind, name in entity.items()
        )
        answer = self._ask(DescribeClientQuotasRequest(components=components, strict=False))
        _check(answer.error_code, answer.error_message, "quotas")
        found = [
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: float(value.value) for value in entry.values},
            )
            for entry in answer.entries or ()
        ]
        return sorted(found, key=lambda entry: str(sorted(entry[0].items(), key=str)))

    def alter_quota(
        self, entity: Mapping[str, str | None], values: Mapping[str, float | None], *, is_dry_run: bool
    ) -> None:
        """None takes a limit away."""
        from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
        from kio.static.primitive import f64

        parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items())
        ops = tuple(OpData(key=key, value=f64(value or 0.0), remove=value is None) for key, value in values.items())
        request = AlterClientQuotasRequest(entries=(EntryData(entity=parts, ops=ops),), validate_only=is_dry_run)
        for entry in self._ask(request).entries:
            _check(entry.error_code, entry.error_message, "quota")


def explain(
    rules: Iterable[Acl],
    settings: Mapping[str, str | None],
    principal: KafkaPrincipal,
    host: str,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
) -> Explanation:
    """The node's own authorizer, over the rules as they were listed."""
    known = AclSet()
    for rule in rules:
        known.add(uuid.uuid4().bytes, rule)
    authorizer = Authorizer(
        lambda: known,
        parse_super_users(settings.get(SUPER_USERS) or ""),
        allows_everyone_without_acl=settings.get(ALLOWED_WITHOUT) == "true",
    )
    ruling: Ruling = authorizer.ruling(principal, host, operation, kind, name)
    is_denied = any(str(rule) == ruling.reason for rule in known.about(kind, name))
    missing = None
    if not ruling.is_allowed and not is_denied:
        missing = Acl(kind, name, AclPatternType.LITERAL, str(principal), "*", operation, AclPermission.ALLOW)
    return Explanation(
        ruling.is_allowed, ruling.reason, missing, is_sure=ruling.is_allowed or settings.get(SUPER_USERS) is not None
    )


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    from kio.static.primitive import i8

    return {
        "resource_type_filter": i8(int(wanted.resource_type)),
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": i8(int(wanted.pattern_type)),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": i8(int(wanted.operation)),
        "permission_type": i8(int(wanted.permission)),
    }


def _acl_of(on: Any, rule: Any) -> Acl:
    return Acl(
        AclResourceType(on.resource_type),
        on.resource_name,
        AclPatternType(on.pattern_type),
        rule.principal,
        rule.host,
        AclOperation(rule.operation),
        AclPermission(rule.permission_type),
    )


def _check(code: int, message: str | None, what: str) -> None:
    if code == Code.NONE:
        return
    name = Code(code).name
    hint = "the cluster has no authorizer (authorizer.class.name)" if code == Code.SECURITY_DISABLED else None
    raise RefusedByNode(code, f"{what}: {message or 'refused'} ({name})", hint)
