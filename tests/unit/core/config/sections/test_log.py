"""Defaults of topics that go together."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig


def test_the_shortest_compaction_lag_is_not_over_the_longest() -> None:
    lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}

    with pytest.raises(BadConfig, match=r"log\.cleaner\.min\.compaction\.lag\.ms \(9\) must not be larger than"):
        NodeConfig.from_settings(lags)
