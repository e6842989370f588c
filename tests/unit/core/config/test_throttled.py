"""Which replicas a list of throttled ones names."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import BadConfig
from chronik.core.config.throttled import ALL_REPLICAS, partitions_of
from chronik.core.config.topic import TOPIC_SETTINGS

SETTING = TOPIC_SETTINGS["leader.replication.throttled.replicas"]


@pytest.mark.parametrize(
    ("text", "partitions"),
    [("", set()), ("0:1", {0}), ("0:1,1:2, 7:1 ,", {0, 7}), ("3:2", set()), ("*", ALL_REPLICAS), (" * ", ALL_REPLICAS)],
)
def test_a_list_names_the_partitions_whose_replica_on_this_node_is_throttled(
    text: str, partitions: set[int] | None
) -> None:
    assert partitions_of(SETTING.parse(text), node_id=1) == partitions


@pytest.mark.parametrize("text", ["0", "0:", "*,0:1", "a:1", "0:1:2", "-1:1", "0:1;1:2", "²:1", "9" * 5000 + ":1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match=r"must be the literal '\*' or a list of replicas"):
        SETTING.parse(text)
