"""Where the partitions of a node go that leaves."""

from __future__ import annotations

from pathlib import Path

from chronik.local_cluster.directory import ClusterDirectory
from chronik.local_cluster.growing import plan_without


def test_a_leaving_node_is_replaced_in_its_place_by_the_one_that_holds_least() -> None:
    replicas = {("a", 0): (3, 1), ("a", 1): (1, 2), ("a", 2): (2, 3)}

    plan = plan_without(3, replicas, [1, 2, 4])

    assert plan == {("a", 0): [4, 1], ("a", 2): [2, 4]}


def test_what_is_moved_counts_for_what_is_moved_next() -> None:
    replicas = {("a", number): (3,) for number in range(4)}

    plan = plan_without(3, replicas, [1, 2])

    assert sorted(nodes for (nodes,) in plan.values()) == [1, 1, 2, 2]


def test_where_all_others_hold_it_already_it_has_one_replica_less() -> None:
    assert plan_without(2, {("a", 0): (1, 2, 3)}, [1, 3]) == {("a", 0): [1, 3]}


def test_where_there_is_nobody_else_nothing_is_left() -> None:
    assert plan_without(1, {("a", 0): (1,)}, []) == {("a", 0): []}


def test_partitions_of_others_stay_where_they_are() -> None:
    assert plan_without(3, {("a", 0): (1, 2)}, [1, 2]) == {}


def test_the_number_of_a_removed_node_is_never_given_again(tmp_path: Path) -> None:
    cluster = ClusterDirectory(tmp_path, "a-cluster")
    assert cluster.unused_number() == 1
    for number in (1, 2, 12):
        cluster.new_node(number, {})

    del cluster.nodes[12]  # its directory stays

    assert cluster.unused_number() == 13
