"""What a request takes of its client's quotas, and what follows (KIP-219): the answer leaves at once and says for how
long the client should wait; meanwhile its connection is not read from. A fetch over its quota is answered empty.

Asked only where there are quotas at all (`context.quotas.limits.is_in_use`). Nodes are never throttled: what a node
sends on for a client was counted where it arrived, but for changes of topics, which the controller counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chronik.api.call import Call
from chronik.api.context import Caller, RequestContext
from chronik.api.durations import duration, milliseconds
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ChangeOutcome
from chronik.core.quotas.client_quotas import FREE, Decided, MutationQuota
from chronik.core.quotas.entities import QuotaKey

EXCEEDED = ChangeOutcome(Code.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def record_time(caller: Caller, context: RequestContext, spent_ms: float) -> None:
    """A request took so much of this node's time."""
    if not caller.is_node:
        context.quotas.record_time(*_names(caller), spent_ms, context.clock.monotonic_ms())


def after_produce(call: Call, context: RequestContext) -> int:
    """How long its client has to wait, in ms."""
    caller = call.caller
    if caller.is_node:
        return 0
    now_ms = context.clock.monotonic_ms()
    by_bytes = context.quotas.record(QuotaKey.PRODUCE, *_names(caller), len(call.frame), now_ms)
    return mute(call, max(by_bytes, _by_time(caller, context, now_ms)))


def fetch_bytes_max(call: Call, context: RequestContext, asked: int) -> int:
    """No more than its client may have in all windows together: else it would never get anything."""
    most = None if call.caller.is_node else context.quotas.fetch_bytes_max(*_names(call.caller))
    return asked if most is None else min(asked, most)


def with_fetch(call: Call, context: RequestContext, size_bytes: int) -> Decided:
    """How long its client has to wait, and whether it gets nothing now."""
    caller = call.caller
    if caller.is_node:
        return FREE
    now_ms = context.clock.monotonic_ms()
    by_time = _by_time(caller, context, now_ms)
    if by_time:
        return Decided(mute(call, by_time), is_withheld=True)
    decided = context.quotas.give(*_names(caller), size_bytes, now_ms)
    mute(call, decided.wait_ms)
    return decided


def throttled(call: Call, context: RequestContext, response: Any) -> Any:
    """Any other response, with how long its client has to wait."""
    caller = call.caller
    if caller.is_node:
        return response
    wait_ms = max(throttle_ms_of(response), _by_time(caller, context, context.clock.monotonic_ms()))
    if not wait_ms:
        return response
    mute(call, wait_ms)
    return replace(response, throttle_time=duration(wait_ms)) if hasattr(response, "throttle_time") else response


def throttle_ms_of(response: Any) -> int:
    said = getattr(response, "throttle_time", None)
    return 0 if said is None else milliseconds(said)


def mute(call: Call, wait_ms: int) -> int:
    """Do not read from its connection for so long, from its answer on."""
    if wait_ms and not call.caller.is_node:
        call.peer.throttle_ms = max(call.peer.throttle_ms, wait_ms)
    return wait_ms


def mutation_quota(caller: Caller, context: RequestContext, strict_from: int) -> MutationQuota:
    """What a request that changes topics may change. Versions from `strict_from` on know the refusal (KIP-599); others
    are done, and wait."""
    user, client_id = _names(caller)
    quotas = context.quotas
    if caller.is_node and not caller.is_forwarded:
        return MutationQuota(quotas, None, is_strict=False)
    return quotas.mutation(user, client_id, is_strict=caller.version >= strict_from)


def with_wait(response: Any, quota: MutationQuota) -> Any:
    return replace(response, throttle_time=duration(quota.wait_ms)) if quota.wait_ms else response


def _by_time(caller: Caller, context: RequestContext, now_ms: int) -> int:
    return context.quotas.wait_ms(QuotaKey.REQUEST, *_names(caller), now_ms)


def _names(caller: Caller) -> tuple[str, str]:
    return caller.principal.name, caller.client_id
