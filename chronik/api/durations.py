"""Durations between the wire (timedelta) and the core (whole milliseconds)."""

from __future__ import annotations

import datetime

_MILLISECOND = datetime.timedelta(milliseconds=1)


def milliseconds(duration: datetime.timedelta) -> int:
    return duration // _MILLISECOND


def duration(milliseconds: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=milliseconds)
