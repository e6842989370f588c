"""The HTTP port."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig


def test_the_http_address_may_be_left_out() -> None:
    assert NodeConfig().http.http_host_and_port == ("127.0.0.1", 9644)
    assert NodeConfig.from_settings({"http.address": ""}).http.http_host_and_port is None
    with pytest.raises(BadConfig):
        NodeConfig.from_settings({"http.address": "nowhere"})
