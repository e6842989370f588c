"""Replicas chosen by hand."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.assignments import check_assignment, check_new_assignment
from tests.unit.core.machines.metadata.cluster import Cluster


@pytest.mark.parametrize(
    ("replicas", "factor", "words"),
    [
        ((), None, "empty"),
        ((1, 9), None, "broker 9"),
        ((1, 1), None, "more than once"),
        ((1, 2), 3, "2 replica"),
    ],
)
def test_what_cannot_be_is_refused(replicas: tuple[int, ...], factor: int | None, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        check_assignment(Cluster().image, replicas, factor)

    assert refused.value.code == Code.INVALID_REPLICA_ASSIGNMENT


def test_a_new_partition_needs_somebody_who_can_lead() -> None:
    cluster = Cluster()
    cluster.topic((2, 3))
    cluster.fence(1)
    cluster.beat(2, wants_shut_down=True)

    check_new_assignment(cluster.image, 0, (1, 2, 3), None)
    check_assignment(cluster.image, (1, 2))
    with pytest.raises(Refused, match="fenced"):
        check_new_assignment(cluster.image, 0, (1, 2), None)
