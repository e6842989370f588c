"""Durations as the wire and the core count them."""

from __future__ import annotations

import datetime

from chronik.api.durations import duration, milliseconds


def test_milliseconds_go_there_and_back() -> None:
    assert milliseconds(datetime.timedelta(seconds=45)) == 45_000
    assert milliseconds(datetime.timedelta(milliseconds=-1)) == -1
    assert milliseconds(duration(300_001)) == 300_001
