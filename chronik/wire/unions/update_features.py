"""UpdateFeatures: whether a level may go down is a yes or no in version 0, one of three kinds of update from 1; one
result a feature up to version 1, one for all of them from 2."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from chronik.core.errors import Code

MINUTE = datetime.timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`allow_downgrade` in version 0 only, `upgrade_type` from 1."""

    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All fields there ever were."""

    timeout: datetime.timedelta = MINUTE
    feature_updates: tuple[Update, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How it went with one feature: up to version 1."""

    feature: str = ""
    error_code: Code = Code.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """All fields there ever were."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    error_code: Code = Code.NONE
    error_message: str | None = None
    results: tuple[Result, ...] = ()
