"""FindCoordinator: one key and one answer up to version 3, many from version 4."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from chronik.core.errors import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyFindCoordinatorRequest:
    """`coordinator_keys` from version 4, `key` before."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyCoordinator:
    """Where to go for one key."""

    key: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: Code = Code.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyFindCoordinatorResponse:
    """`coordinators` from version 4; before, the fields of the only one."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    error_code: Code = Code.NONE
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    coordinators: tuple[AnyCoordinator, ...] = ()
