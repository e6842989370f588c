"""A request answered on this node, whether its handler waits or not."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

from chronik.api.desk import Caller, Desk


async def here(module: ModuleType, request: Any, caller: Caller, desk: Desk) -> Any:
    """The module's response. Raises Refused."""
    response = module.handle(request, caller, desk)
    return await response if asyncio.iscoroutine(response) else response
