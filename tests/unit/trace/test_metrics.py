"""The numbers a node counts."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.trace.metrics import Metrics
from chronik.wire.versions import EVERY_API, FETCH, PRODUCE


def test_every_request_that_is_spoken_has_a_counter_from_the_start() -> None:
    assert Metrics().requests == dict.fromkeys(EVERY_API, 0)


def test_refusals_are_counted_by_request_and_reason() -> None:
    metrics = Metrics()

    metrics.refused(PRODUCE, Code.NOT_LEADER_OR_FOLLOWER)
    metrics.refused(PRODUCE, Code.NOT_LEADER_OR_FOLLOWER)
    metrics.refused(FETCH, Code.NOT_LEADER_OR_FOLLOWER)
    metrics.refused(PRODUCE, Code.MESSAGE_TOO_LARGE)

    assert metrics.refusals == {
        (PRODUCE, Code.NOT_LEADER_OR_FOLLOWER): 2,
        (FETCH, Code.NOT_LEADER_OR_FOLLOWER): 1,
        (PRODUCE, Code.MESSAGE_TOO_LARGE): 1,
    }
