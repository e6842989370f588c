"""All we speak, on one page: which module answers which request, and how.

`DIRECT` modules take the frame themselves (`start(frame, header, caller, desk, answer)`): the two hot requests. What
they return, if anything, is called when the client is gone before it has its answer. All
others have `handle(request, caller, desk)` and `refuse(request, code, message)`. `OVERLAPS` names the requests behind
which the next one of the same connection may start; behind any other it waits for the answer, so that a client which
sends 'create topic' and 'metadata' in one go sees its topic.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

from chronik.wire.versions import API_VERSIONS, APIS, FETCH, PRODUCE

DIRECT = frozenset({PRODUCE, FETCH})

_OVERLAPPING_NAMES = (
    "produce",
    "fetch",
    "join_group",
    "sync_group",
    "heartbeat",
    "offset_commit",
    "offset_fetch",
    "consumer_group_heartbeat",
)
OVERLAPS = frozenset(api.key for api in APIS.values() if api.name in _OVERLAPPING_NAMES)


@cache
def module_of(api_key: int) -> ModuleType:
    """The module that answers this request, loaded when first asked for: a node starts without those it never needs."""
    return importlib.import_module(f"chronik.api.{APIS[api_key].name}")


__all__ = ["APIS", "API_VERSIONS", "DIRECT", "OVERLAPS", "module_of"]
