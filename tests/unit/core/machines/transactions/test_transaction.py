"""The states of a transactional id."""

from __future__ import annotations

import pytest

from chronik.core.machines.transactions.transaction import (
    FOLLOWS,
    LAST_EPOCH_FOR_PRODUCERS,
    Transaction,
    TransactionStatus,
)

S = TransactionStatus


def test_states_have_kafkas_names() -> None:
    labels = [status.label for status in S]
    assert labels[:4] == ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort"]
    assert labels[4:] == ["CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]


def test_a_decision_is_followed_by_its_completion_and_by_nothing_else() -> None:
    assert FOLLOWS[S.PREPARE_COMMIT] == (S.COMPLETE_COMMIT,)
    assert FOLLOWS[S.PREPARE_ABORT] == (S.COMPLETE_ABORT,)
    assert not {S.DEAD, S.PREPARE_EPOCH_FENCE} & {after for followers in FOLLOWS.values() for after in followers}


@pytest.mark.parametrize("status", FOLLOWS)
def test_what_may_expire_is_neither_open_nor_waits_for_markers(status: TransactionStatus) -> None:
    transaction = Transaction("tx", 1, 0, 60_000, status)
    assert transaction.may_expire is (status is not S.ONGOING and not transaction.is_prepared)
    assert transaction.is_commit is (status is S.PREPARE_COMMIT)


def test_the_last_epoch_is_kept_for_fencing() -> None:
    assert not Transaction("tx", 1, LAST_EPOCH_FOR_PRODUCERS - 1, 60_000).is_epoch_exhausted
    assert Transaction("tx", 1, LAST_EPOCH_FOR_PRODUCERS, 60_000).is_epoch_exhausted
