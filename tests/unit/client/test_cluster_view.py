"""When nodes are one cluster, as one of them sees it."""

from __future__ import annotations

from chronik.client.cluster_view import ClusterView

ADDRESSES = {1: ("here", 1), 2: ("here", 2)}
ORDERS = ("orders", 0)


def test_a_cluster_is_whole_when_all_nodes_live_one_controls() -> None:
    """A cluster is whole when all nodes live one controls and every partition is led."""
    assert ClusterView("c", 1, ADDRESSES, (), {}).is_whole([1, 2])
    assert not ClusterView("c", 1, ADDRESSES, (), {}).is_whole([1, 2, 3])
    assert not ClusterView("c", None, ADDRESSES, (), {}).is_whole([1, 2])
    assert not ClusterView("c", 1, ADDRESSES, (ORDERS,), {ORDERS: (2, 3)}).is_whole([1, 2])


def test_what_only_a_dead_node_holds_is_not_waited_for() -> None:
    view = ClusterView("c", 1, ADDRESSES, (ORDERS,), {ORDERS: (3,)})

    assert view.is_whole([1, 2])
    assert (view.to_be_led([1, 2]), view.to_be_led([1, 2, 3])) == ([], [ORDERS])
