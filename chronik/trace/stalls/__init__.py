"""What stalls, and why: rules as pure functions over the events of all nodes, one module each (docs/stalls.md)."""

from __future__ import annotations

from chronik.trace.stalls.finding import find
from chronik.trace.stalls.limits import Limits

__all__ = ["Limits", "find"]
