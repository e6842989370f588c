"""Rates over the last hour, as the charts show them: one point a look, in constant memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from chronik.console.sight import Partition, Sight

POINTS_MAX = 1_800  # an hour at one look every two seconds
SILENCE_S = 60.0  # a line is not drawn over a longer time in which no page looked


@dataclass(frozen=True)
class Series:
    """Lists of one length. A rate is None where it is not known: no page looked, or a leader did not answer."""

    at_s: list[float]
    in_per_s: list[float | None]
    lag: list[float | None]


class RateSeries:
    """Records a second that became readable, and how far all groups are behind."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points: deque[tuple[float, float | None, float | None]] = deque(maxlen=points_max)
        self._before: tuple[float, Mapping[Partition, int]] | None = None

    def take(self, at_s: float, sight: Sight) -> None:
        """`at_s` is the wall clock's: it is what a chart has below it."""
        if self._before is not None and at_s - self._before[0] > SILENCE_S:
            self._points.append((at_s, None, None))
            self._before = None
        rate: float | None = None
        if self._before is not None and at_s > self._before[0]:
            before_s, before = self._before
            # A watermark that no leader reports now is left out, and one that is seen for the first time has no rate
            # yet.
            moved = sum(max(end - before.get(place, end), 0) for place, end in sight.watermarks.items())
            rate = moved / (at_s - before_s)
        self._before = (at_s, sight.watermarks)
        lags = [group.lag for group in sight.groups if group.lag is not None]
        self._points.append((at_s, rate, float(sum(lags)) if lags else None))

    def read(self) -> Series:
        points = list(self._points)
        return Series([point[0] for point in points], [point[1] for point in points], [point[2] for point in points])
