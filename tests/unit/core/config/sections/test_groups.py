"""Settings of groups that go together."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig


def test_limits_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(BadConfig, match=r"group\.min\.session\.timeout\.ms \(9\) must not be larger"):
        NodeConfig.from_settings({"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"})
