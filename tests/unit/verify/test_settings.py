"""Settings that contradict themselves are refused before anything is sent."""

from __future__ import annotations

import pytest

from chronik.verify.errors import RunCannotStart
from chronik.verify.settings import VerifyAcks, VerifySettings

HERE = "127.0.0.1:9092"


def test_the_defaults_are_the_run_that_this_project_began_with() -> None:
    settings = VerifySettings(HERE)

    settings.check()
    assert (settings.messages, settings.partitions, settings.acks) == (5_000, 3, "1")
    assert (settings.client, settings.max_poll_records, settings.timeout_s) == ("kafka-python", 500, 60)


@pytest.mark.parametrize(
    ("acks", "is_idempotent"), [(VerifyAcks.NONE, False), (VerifyAcks.LEADER, False), (VerifyAcks.ALL, True)]
)
def test_a_producer_is_idempotent_where_that_costs_nothing(acks: VerifyAcks, is_idempotent: bool) -> None:
    assert VerifySettings(HERE, acks=acks).is_idempotent is is_idempotent


def test_an_idempotent_producer_needs_acks_all() -> None:
    with pytest.raises(RunCannotStart, match="--acks all"):
        VerifySettings(HERE, acks=VerifyAcks.LEADER, idempotent=True).check()


def test_a_group_and_no_group_contradict_each_other() -> None:
    with pytest.raises(RunCannotStart):
        VerifySettings(HERE, group="g", is_assigned=True).check()
