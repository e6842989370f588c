"""Which requests are administrative changes, and what of each is said in the audit trail: names of what is changed,
never a value that may be a secret.

Said where the request is carried out: at the controller, a partition's leader or a group's coordinator. What a node
asks in its own name is no change by an administrator, and is not said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

from chronik.api import authorization
from chronik.api.context import Caller, RequestContext
from chronik.core.access.acls import AclPatternType, AclPermission
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ResourceType

# These are said of when they were asked about (authorization.Gate), or asked elsewhere.
_SAID_ELSEWHERE = (
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code.GROUP_AUTHORIZATION_FAILED,
    Code.CLUSTER_AUTHORIZATION_FAILED,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Code.NOT_CONTROLLER,
    Code.NOT_COORDINATOR,
)
NO_GENERATION = -1


def handle(module: ModuleType, api: str, request: Any, caller: Caller, context: RequestContext) -> Any:
    """As authorization's, and what is an administrative change is said. Raises Refused."""
    named = CHANGES.get(api)
    if named is None or (caller.is_node and not caller.is_forwarded) or not _is_change(api, request):
        return authorization.handle(module, api, request, caller, context)
    try:
        response = authorization.handle(module, api, request, caller, context)
    except Refused as refused:
        _say_refused(api, named(request), caller, context, refused)
        raise
    if asyncio.iscoroutine(response):
        return _wait_and_say(response, api, named(request), caller, context)
    _say(api, named(request), caller, context, response)
    return response


async def _wait_and_say(
    responding: Any, api: str, resources: list[str], caller: Caller, context: RequestContext
) -> Any:
    try:
        response = await responding
    except Refused as refused:
        _say_refused(api, resources, caller, context, refused)
        raise
    _say(api, resources, caller, context, response)
    return response


def _say(api: str, resources: list[str], caller: Caller, context: RequestContext, response: Any) -> None:
    codes: dict[Code, None] = {}
    _collect(response, codes)
    if not resources:
        return  # nothing was asked for
    if codes and all(code in _SAID_ELSEWHERE for code in codes):
        return
    context.audit.changed(caller, api, resources, [code.name for code in codes])


def _say_refused(api: str, resources: list[str], caller: Caller, context: RequestContext, refused: Refused) -> None:
    if refused.code not in _SAID_ELSEWHERE:
        context.audit.changed(caller, api, resources, [refused.code.name])


def _collect(message: Any, codes: dict[Code, None]) -> None:
    """Every error code in a response, NONE too; the one of the whole says nothing if there are codes of parts."""
    if isinstance(message, tuple):
        for one in message:
            _collect(one, codes)
    elif is_dataclass(message):
        parts = [getattr(message, field.name) for field in fields(message)]
        for part in parts:
            _collect(part, codes)
        code = getattr(message, "error_code", None)
        if code is not None and (code or not codes):
            codes[Code(code)] = None


def _is_change(api: str, request: Any) -> bool:
    """A commit of a member of a group is its daily work; one without a membership sets offsets by hand."""
    if api == "offset_commit":
        return bool(request.generation_id_or_member_epoch == NO_GENERATION and not request.member_id)
    return not getattr(request, "validate_only", False)


def _topic_names(request: Any) -> list[str]:
    return [f"TOPIC {topic.name}" for topic in request.topics]


def _created(request: Any) -> list[str]:
    return [f"TOPIC {topic.name} partitions={topic.num_partitions}" for topic in request.topics]


def _deleted(request: Any) -> list[str]:
    named = [f"TOPIC {name}" for name in request.topic_names]
    return named + [f"TOPIC {topic.name or topic.topic_id}" for topic in request.topics]


def _more_partitions(request: Any) -> list[str]:
    return [f"TOPIC {topic.name} partitions={topic.count}" for topic in request.topics]


def _configs(request: Any) -> list[str]:
    """Which settings, not what they are: some are passwords."""
    return [
        f"{_name_of(ResourceType, one.resource_type)} {one.resource_name} {config.name}"
        for one in request.resources
        for config in one.configs
    ]


def _name_of(kind: Any, number: int) -> str:
    try:
        return str(kind(number).name)
    except ValueError:
        return str(number)


def _acl(rule: Any, kind: int, name: Any, pattern: int) -> str:
    return (
        f"{_name_of(AclPermission, rule.permission_type)} {_name_of(AclOperation, rule.operation)} on"
        f" {_name_of(AclResourceType, kind)} {name} ({_name_of(AclPatternType, pattern)})"
    )


def _new_acls(request: Any) -> list[str]:
    return [
        f"{_acl(one, one.resource_type, one.resource_name, one.resource_pattern_type)} for"
        f" {one.principal} from {one.host}"
        for one in request.creations
    ]


def _gone_acls(request: Any) -> list[str]:
    return [
        f"{_acl(one, one.resource_type_filter, one.resource_name_filter, one.pattern_type_filter)} for"
        f" {one.principal_filter} from {one.host_filter}"
        for one in request.filters
    ]


def _users(request: Any) -> list[str]:
    gone = [f"USER {one.name} removed mechanism={one.mechanism}" for one in request.deletions]
    return gone + [f"USER {one.name} set mechanism={one.mechanism}" for one in request.upsertions]


def _quotas(request: Any) -> list[str]:
    said = []
    for entry in request.entries:
        entity = ",".join(f"{one.entity_type}={one.entity_name or '<default>'}" for one in entry.entity)
        said += [f"QUOTA {entity} {op.key}={'removed' if op.remove else op.value}" for op in entry.ops]
    return said


def _reassignments(request: Any) -> list[str]:
    return [
        f"PARTITION {topic.name}-{one.partition_index} replicas={one.replicas}"
        for topic in request.topics
        for one in topic.partitions
    ]


def _elections(request: Any) -> list[str]:
    if request.topic_partitions is None:
        return ["PARTITION all of them"]
    return [f"PARTITION {one.topic}-{number}" for one in request.topic_partitions for number in one.partitions]


def _features(request: Any) -> list[str]:
    return [f"FEATURE {one.feature}={one.max_version_level}" for one in request.feature_updates]


def _records(request: Any) -> list[str]:
    return [
        f"PARTITION {topic.name}-{one.partition_index} before={one.offset}"
        for topic in request.topics
        for one in topic.partitions
    ]


def _groups(request: Any) -> list[str]:
    return [f"GROUP {name}" for name in request.groups_names]


def _group_topics(request: Any) -> list[str]:
    return [f"GROUP {request.group_id} TOPIC {_shown(topic)}" for topic in request.topics]


def _shown(topic: Any) -> object:
    return getattr(topic, "name", None) or getattr(topic, "topic_id", "")


def _markers(request: Any) -> list[str]:
    return [f"PRODUCER {one.producer_id} committed={one.transaction_result}" for one in request.markers]


def _new_token(request: Any) -> list[str]:
    owner = request.owner_principal_name
    return [f"TOKEN of {request.owner_principal_type}:{owner}" if owner else "TOKEN of the one that asks"]


def _token(request: Any) -> list[str]:
    return ["TOKEN"]  # the request names it by what is as good as a password


def _broker(request: Any) -> list[str]:
    return [f"NODE {request.broker_id}"]


def _voter(request: Any) -> list[str]:
    return [f"VOTER {request.voter_id}"]


CHANGES: dict[str, Callable[[Any], list[str]]] = {
    "create_topics": _created,
    "delete_topics": _deleted,
    "create_partitions": _more_partitions,
    "alter_configs": _configs,
    "incremental_alter_configs": _configs,
    "create_acls": _new_acls,
    "delete_acls": _gone_acls,
    "alter_user_scram_credentials": _users,
    "alter_client_quotas": _quotas,
    "alter_partition_reassignments": _reassignments,
    "elect_leaders": _elections,
    "update_features": _features,
    "delete_records": _records,
    "delete_groups": _groups,
    "offset_delete": _group_topics,
    "offset_commit": _group_topics,
    "write_txn_markers": _markers,
    "create_delegation_token": _new_token,
    "renew_delegation_token": _token,
    "expire_delegation_token": _token,
    "unregister_broker": _broker,
    "add_raft_voter": _voter,
    "remove_raft_voter": _voter,
}
