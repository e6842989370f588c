"""A request answered on this node, whether its handler waits or not."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from chronik.api.context import Caller, RequestContext


async def here(module: ModuleType, request: Any, caller: Caller, context: RequestContext) -> Any:
    """The module's response. Raises Refused."""
    response = module.handle(request, caller, context)
    return await response if asyncio.iscoroutine(response) else response
