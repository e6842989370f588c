"""What a principal may have of a request, by its ACLs: all of it, some of its topics, groups or resources, or nothing.

A request is refused whole where it needs a right that its principal has not (`_WHOLE`), or falls into parts
(`_PARTS`): what is allowed goes to the handler, the rest is refused in the shape of its module's `refuse`, and both
answers become one. What a handler would tell of topics and groups that the principal may not see is taken out of its
response (`_SEEN`). Produce, fetch, metadata and a few others ask for themselves (`ASK_THEMSELVES`). A request that is
in none of these tables is refused: one that was forgotten lets no client in.

Nodes and super users are not asked about. What a node sends on for a client is asked about as that client's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from chronik.api.context import Caller, RequestContext
from chronik.api.delegation import TOKEN_REQUESTS, check_may_ask
from chronik.api.refusals import trace_refusal
from chronik.core.access.acls import CLUSTER_NAME
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ResourceType

_O, _R = AclOperation, AclResourceType
_REFUSED = {
    _R.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    _R.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    _R.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    _R.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    _R.DELEGATION_TOKEN: Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    _R.USER: Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
# As Kafka says it: some clients take a code without words for no error.
_WORDS = {
    Code.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    Code.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Code.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}


class Gate:
    """One caller's questions to the authorizer."""

    def __init__(self, authorizer: Authorizer, caller: Caller, context: RequestContext, api: str) -> None:
        self._authorizer = authorizer
        self._caller = caller
        self._context = context
        self._api = api

    def may(self, operation: AclOperation, kind: AclResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether it may; a no is traced."""
        caller = self._caller
        if self._authorizer.is_allowed(caller.principal, caller.client_host, operation, kind, name):
            return True
        topic = name if kind is _R.TOPIC and self._context.metadata.image.topic(name) is not None else None
        reason = f"{caller.principal} has no {operation.name} on {kind.name} {name}"
        trace_refusal(self._context, self._api, caller, _REFUSED[kind], reason, topic)
        self._context.audit.denied(caller, self._api, operation.name, kind.name, name)
        return False

    def sees(self, operation: AclOperation, kind: AclResourceType, name: str) -> bool:
        """As `may`, for what is only left out of an answer: nothing is refused by it."""
        caller = self._caller
        return self._authorizer.is_allowed(caller.principal, caller.client_host, operation, kind, name)

    def may_on_any(self, operation: AclOperation, kind: AclResourceType) -> bool:
        caller = self._caller
        return self._authorizer.is_allowed_on_any(caller.principal, caller.client_host, operation, kind)

    def need(self, operation: AclOperation, kind: AclResourceType, name: str = CLUSTER_NAME) -> None:
        """Raises Refused."""
        if not self.may(operation, kind, name):
            raise Refused(_REFUSED[kind], _WORDS[_REFUSED[kind]])

    def operations(self, kind: AclResourceType, name: str, among: int) -> int:
        """Those of these bits that are allowed."""
        numbers = [number for number in range(1, 32) if among >> number & 1]
        caller = self._caller
        return self._authorizer.allowed_operations(caller.principal, caller.client_host, kind, name, numbers)


def gate_of(context: RequestContext, caller: Caller, api: str) -> Gate | None:
    """None where everything is allowed: there is no access control, or it is a node or a super user that asks."""
    authorizer = context.authorizer
    if authorizer is None or (caller.is_node and not caller.is_forwarded) or authorizer.is_super(caller.principal):
        return None
    return Gate(authorizer, caller, context, api)


def operations_of(
    context: RequestContext, caller: Caller, api: str, kind: AclResourceType, name: str, among: int
) -> int:
    """What goes into a field of authorized operations."""
    gate = gate_of(context, caller, api)
    return among if gate is None else gate.operations(kind, name, among)


# --- whole requests


def _cluster(operation: AclOperation) -> Callable[[Gate, Any], None]:
    return lambda gate, request: gate.need(operation, _R.CLUSTER)


def _group(operation: AclOperation) -> Callable[[Gate, Any], None]:
    return lambda gate, request: gate.need(operation, _R.GROUP, request.group_id)


def _init_producer_id(gate: Gate, request: Any) -> None:
    if request.transactional_id is not None:
        gate.need(_O.WRITE, _R.TRANSACTIONAL_ID, request.transactional_id)
    elif not gate.sees(_O.IDEMPOTENT_WRITE, _R.CLUSTER, CLUSTER_NAME) and not gate.may_on_any(_O.WRITE, _R.TOPIC):
        gate.need(_O.IDEMPOTENT_WRITE, _R.CLUSTER)


def _transaction(gate: Gate, request: Any) -> None:
    gate.need(_O.WRITE, _R.TRANSACTIONAL_ID, request.transactional_id)


def _offsets_in_transaction(gate: Gate, request: Any) -> None:
    _transaction(gate, request)
    gate.need(_O.READ, _R.GROUP, request.group_id)


def _add_partitions_to_txn(gate: Gate, request: Any) -> None:
    """All of it, or nothing: Kafka too adds no partition where one of them may not be written."""
    wanted = [(request.v3_and_below_transactional_id, request.v3_and_below_topics)]
    for transaction in request.transactions or ():
        wanted.append((transaction.transactional_id, transaction.topics))
    for transactional_id, topics in wanted:
        if transactional_id or topics:
            gate.need(_O.WRITE, _R.TRANSACTIONAL_ID, transactional_id)
        for topic in topics or ():
            gate.need(_O.WRITE, _R.TOPIC, topic.name)


def _consumer_group_heartbeat(gate: Gate, request: Any) -> None:
    gate.need(_O.READ, _R.GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        gate.need(_O.DESCRIBE, _R.TOPIC, name)
    if request.subscribed_topic_regex:  # the coordinator resolves it, for no principal: all topics, or none
        gate.need(_O.DESCRIBE, _R.TOPIC, "*")


_WHOLE: dict[str, Callable[[Gate, Any], None]] = {
    "describe_log_dirs": _cluster(_O.DESCRIBE),
    "describe_acls": _cluster(_O.DESCRIBE),
    "describe_user_scram_credentials": _cluster(_O.DESCRIBE),
    "list_config_resources": _cluster(_O.DESCRIBE_CONFIGS),
    "describe_client_quotas": _cluster(_O.DESCRIBE_CONFIGS),
    "alter_client_quotas": _cluster(_O.ALTER_CONFIGS),
    "create_acls": _cluster(_O.ALTER),
    "delete_acls": _cluster(_O.ALTER),
    "alter_user_scram_credentials": _cluster(_O.ALTER),
    "update_features": _cluster(_O.ALTER),
    "elect_leaders": _cluster(_O.ALTER),
    "alter_partition_reassignments": _cluster(_O.ALTER),
    "list_partition_reassignments": _cluster(_O.DESCRIBE),
    "unregister_broker": _cluster(_O.ALTER),
    "describe_quorum": _cluster(_O.DESCRIBE),
    "add_raft_voter": _cluster(_O.ALTER),
    "remove_raft_voter": _cluster(_O.ALTER),
    "init_producer_id": _init_producer_id,
    "add_partitions_to_txn": _add_partitions_to_txn,
    "add_offsets_to_txn": _offsets_in_transaction,
    "txn_offset_commit": _offsets_in_transaction,
    "end_txn": _transaction,
    "write_txn_markers": _cluster(_O.ALTER),
    "join_group": _group(_O.READ),
    "sync_group": _group(_O.READ),
    "heartbeat": _group(_O.READ),
    "leave_group": _group(_O.READ),
    "offset_commit": _group(_O.READ),
    "offset_delete": _group(_O.DELETE),
    "consumer_group_heartbeat": _consumer_group_heartbeat,
}

# --- parts


class Parts(NamedTuple):
    """How a request falls into parts."""

    field: str  # of the request: its parts
    answers: str  # of the response: their answers
    code: Callable[[Gate, Any, RequestContext], Code]  # why a part is refused, or NONE


def _topics(field: str, answers: str, operation: AclOperation) -> Parts:
    def code(gate: Gate, topic: Any, context: RequestContext) -> Code:
        name = _name_of(topic, context)
        return Code.NONE if name is None or gate.may(operation, _R.TOPIC, name) else Code.TOPIC_AUTHORIZATION_FAILED

    return Parts(field, answers, code)


def _name_of(topic: Any, context: RequestContext) -> str | None:
    """None: an id that stands for no topic, which the handler answers."""
    if isinstance(topic, str):
        return topic
    name: str | None = getattr(topic, "topic", None) or getattr(topic, "name", None)
    topic_id = getattr(topic, "topic_id", None)
    if name or topic_id is None:
        return name or ""
    known = context.metadata.image.topic_by_id(topic_id.bytes)
    return None if known is None else known.name


def _groups(field: str, answers: str, operation: AclOperation) -> Parts:
    def code(gate: Gate, group: Any, context: RequestContext) -> Code:
        name = group if isinstance(group, str) else group.group_id
        return Code.NONE if gate.may(operation, _R.GROUP, name) else Code.GROUP_AUTHORIZATION_FAILED

    return Parts(field, answers, code)


def _resources(operation: AclOperation) -> Parts:
    def code(gate: Gate, resource: Any, context: RequestContext) -> Code:
        if resource.resource_type == ResourceType.TOPIC:
            kind, name = _R.TOPIC, resource.resource_name
        elif resource.resource_type == ResourceType.GROUP:
            kind, name = _R.GROUP, resource.resource_name
        else:
            kind, name = _R.CLUSTER, CLUSTER_NAME
        return Code.NONE if gate.may(operation, kind, name) else _REFUSED[kind]

    return Parts("resources", "results" if operation is _O.DESCRIBE_CONFIGS else "responses", code)


def _created(gate: Gate, topic: Any, context: RequestContext) -> Code:
    if gate.sees(_O.CREATE, _R.CLUSTER, CLUSTER_NAME) or gate.may(_O.CREATE, _R.TOPIC, topic.name):
        return Code.NONE
    return Code.TOPIC_AUTHORIZATION_FAILED


def _described_id(gate: Gate, transactional_id: Any, context: RequestContext) -> Code:
    is_allowed = gate.may(_O.DESCRIBE, _R.TRANSACTIONAL_ID, transactional_id)
    return Code.NONE if is_allowed else Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


_PARTS: dict[str, Parts] = {
    "list_offsets": _topics("topics", "topics", _O.DESCRIBE),
    "offset_for_leader_epoch": _topics("topics", "topics", _O.DESCRIBE),
    "delete_records": _topics("topics", "topics", _O.DELETE),
    "describe_producers": _topics("topics", "topics", _O.READ),
    "offset_commit": _topics("topics", "topics", _O.READ),
    "offset_delete": _topics("topics", "topics", _O.READ),
    "txn_offset_commit": _topics("topics", "topics", _O.READ),
    "describe_transactions": Parts("transactional_ids", "transaction_states", _described_id),
    "create_topics": Parts("topics", "topics", _created),
    "create_partitions": _topics("topics", "results", _O.ALTER),
    "describe_groups": _groups("groups", "groups", _O.DESCRIBE),
    "delete_groups": _groups("groups_names", "results", _O.DELETE),
    "consumer_group_describe": _groups("group_ids", "groups", _O.DESCRIBE),
    "describe_configs": _resources(_O.DESCRIBE_CONFIGS),
    "alter_configs": _resources(_O.ALTER_CONFIGS),
    "incremental_alter_configs": _resources(_O.ALTER_CONFIGS),
}

# --- what is seen of a response


def _listed_groups(gate: Gate, response: Any) -> Any:
    if gate.sees(_O.DESCRIBE, _R.CLUSTER, CLUSTER_NAME):
        return response
    seen = tuple(group for group in response.groups if gate.sees(_O.DESCRIBE, _R.GROUP, group.group_id))
    return replace(response, groups=seen)


def _created_configs(gate: Gate, response: Any) -> Any:
    def seen(topic: Any) -> Any:
        if topic.error_code or gate.sees(_O.DESCRIBE_CONFIGS, _R.TOPIC, topic.name):
            return topic
        hidden = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
        return replace(topic, topic_config_error_code=Code.TOPIC_AUTHORIZATION_FAILED, **hidden)

    return replace(response, topics=tuple(map(seen, response.topics)))


def _described_groups(gate: Gate, response: Any) -> Any:
    """A group with topics that are not to be seen is refused, as in Kafka: what it reads would tell of them."""

    def seen(group: Any) -> Any:
        named = {name for member in group.members for name in member.subscribed_topic_names or ()}
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                named.update(topic.topic_name for topic in assignment.topic_partitions)
        if all(gate.sees(_O.DESCRIBE, _R.TOPIC, name) for name in named):
            return group
        message = "The group has described topic(s) that the client is not authorized to describe."
        return replace(group, error_code=Code.TOPIC_AUTHORIZATION_FAILED, error_message=message, members=())

    return replace(response, groups=tuple(map(seen, response.groups)))


def _listed_transactions(gate: Gate, response: Any) -> Any:
    states = response.transaction_states
    seen = tuple(one for one in states if gate.sees(_O.DESCRIBE, _R.TRANSACTIONAL_ID, one.transactional_id))
    return replace(response, transaction_states=seen)


def _described_transactions(gate: Gate, response: Any) -> Any:
    """Without the topics that are not to be seen."""

    def seen(state: Any) -> Any:
        return replace(state, topics=tuple(t for t in state.topics if gate.sees(_O.DESCRIBE, _R.TOPIC, t.topic)))

    return replace(response, transaction_states=tuple(map(seen, response.transaction_states)))


_SEEN: dict[str, Callable[[Gate, Any], Any]] = {
    "list_transactions": _listed_transactions,
    "describe_transactions": _described_transactions,
    "list_groups": _listed_groups,
    "create_topics": _created_configs,
    "consumer_group_describe": _described_groups,
}

# These ask for themselves, topic by topic or key by key; or every client may have them.
ASK_THEMSELVES = frozenset(
    ("produce", "fetch", "metadata", "find_coordinator", "offset_fetch", "describe_topic_partitions", "delete_topics",
     "describe_cluster", "inspect", "api_versions", "sasl_handshake", "sasl_authenticate", *TOKEN_REQUESTS)
)  # fmt: skip
GUARDED = frozenset((*_WHOLE, *_PARTS, *_SEEN))


def check_whole(api: str, request: Any, caller: Caller, context: RequestContext) -> None:
    """Whether it may be asked at all. Raises Refused."""
    check_may_ask(api, caller)
    gate = gate_of(context, caller, api)
    if gate is None or api in ASK_THEMSELVES:
        return
    if api not in GUARDED:
        gate.need(_O.CLUSTER_ACTION, _R.CLUSTER)
    if api in _WHOLE:
        _WHOLE[api](gate, request)


def handle(module: ModuleType, api: str, request: Any, caller: Caller, context: RequestContext) -> Any:
    """As the module's `handle`, with what the caller may have. Raises Refused."""
    gate = gate_of(context, caller, api)
    if gate is None or api in ASK_THEMSELVES:
        return module.handle(request, caller, context)
    check_whole(api, request, caller, context)
    allowed, refused = _parted(gate, api, request, context)
    answers: Any = None
    if refused:
        parts = _PARTS[api]
        told = [
            module.refuse(replace(request, **{parts.field: tuple(some)}), code, _WORDS[code]) for code, some in refused
        ]
        answers = tuple(one for each in told for one in getattr(each, parts.answers))
        if allowed is None:
            return told[0] if len(told) == 1 else replace(told[0], **{parts.answers: answers})
    response = module.handle(request if allowed is None else allowed, caller, context)
    if asyncio.iscoroutine(response):
        return _wait_and_finish(response, gate, api, answers)
    return _finished(response, gate, api, answers)


def _parted(
    gate: Gate, api: str, request: Any, context: RequestContext
) -> tuple[Any | None, list[tuple[Code, list[Any]]]]:
    """The request with what is allowed, None if that is nothing or all; and by reason what is refused."""
    parts = _PARTS.get(api)
    if parts is None:
        return None, []
    allowed: list[Any] = []
    refused: dict[Code, list[Any]] = {}
    for part in getattr(request, parts.field) or ():
        code = parts.code(gate, part, context)
        (allowed if code is Code.NONE else refused.setdefault(code, [])).append(part)
    if not refused:
        return None, []
    return (replace(request, **{parts.field: tuple(allowed)}) if allowed else None), list(refused.items())


async def _wait_and_finish(responding: Any, gate: Gate, api: str, answers: Iterable[Any] | None) -> Any:
    return _finished(await responding, gate, api, answers)


def _finished(response: Any, gate: Gate, api: str, answers: Iterable[Any] | None) -> Any:
    if api in _SEEN:
        response = _SEEN[api](gate, response)
    if answers is None:
        return response
    field = _PARTS[api].answers
    return replace(response, **{field: (*getattr(response, field), *answers)})
