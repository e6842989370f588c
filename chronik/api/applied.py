"""The answer to a change of topics waits until the live brokers have applied it.

So what is asked of any node next finds the topic there, or gone. Kafka answers when its controller has it, and a client
may get UNKNOWN_TOPIC_OR_PARTITION from a broker that is some milliseconds behind. The wait is short, never longer
than the request's own timeout, and not for brokers that are fenced or did not come in time before
(core/raft/applied.py).
"""

from __future__ import annotations

import datetime

from chronik.api.context import RequestContext
from chronik.api.durations import milliseconds

APPLIED_MS_MAX = 500


async def wait_until_applied(context: RequestContext, timeout: datetime.timedelta, began_ms: int) -> None:
    """`timeout` is that of the request, which came at `began_ms` of the steady clock."""
    left_ms = began_ms + milliseconds(timeout) - context.clock.monotonic_ms()
    if left_ms > 0:
        await context.metadata.wait_until_applied(min(left_ms, APPLIED_MS_MAX))
