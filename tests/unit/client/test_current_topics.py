"""Whether there is a topic: only a node that is in touch with the cluster can say no."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.client.current_topics import Unsure, partitions_now, unknown_topic
from tests.unit.client.answering import another_kafka, answering
from tests.unit.client.looked_at import Nodes, free_address


def topics(node: int, *, is_current: bool, **partitions: int) -> dict[str, Any]:
    return {"node": node, "now_us": 1, "is_current": is_current, "partitions": partitions}


def nodes(*answers: dict[str, Any]) -> Nodes:
    return Nodes({each: free_address() for each in (1, 2, 3)}, {answer["node"]: answer for answer in answers})


def test_the_node_that_is_in_touch_is_right() -> None:
    with answering(nodes(topics(1, is_current=False), topics(2, is_current=True, orders=3))) as address:
        assert partitions_now([address], "orders") == 3
        assert partitions_now([address], "others") == 0
        assert isinstance(unknown_topic([address], "orders", [], "create it"), Unsure)
        assert str(unknown_topic([address], "others", [], "create it")) == "no topic others; create it"


def test_where_none_is_in_touch_it_is_not_known() -> None:
    with answering(nodes(topics(1, is_current=False), topics(2, is_current=False))) as address:
        with pytest.raises(Unsure, match="whether there is a topic orders is not known"):
            partitions_now([address], "orders")
        assert "not known" in str(unknown_topic([address], "orders", ["order"], "create it"))


def test_another_kafka_is_believed() -> None:
    with answering(another_kafka) as address:
        assert partitions_now([address], "orders") is None
        assert str(unknown_topic([address], "orders", ["order"], "")) == "no topic orders; did you mean order?"
