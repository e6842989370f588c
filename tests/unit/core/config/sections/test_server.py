"""Which node it is."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig


@pytest.mark.parametrize("text", ["", "a,b"])
def test_a_node_has_one_data_directory(text: str) -> None:
    with pytest.raises(BadConfig, match="must be one directory"):
        NodeConfig.from_settings({"log.dirs": text})
