"""Points in a log, and what an answer says."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.raft.messages import LogPoint, RaftFetchAnswer

HERE = LogPoint(1, 4)


def test_a_later_epoch_is_more_up_to_date_than_a_longer_log() -> None:
    """Raft, 5.4.1: 'If the logs have last entries with different terms, then the log with the later term is more
    up-to-date. If the logs end with the same term, then whichever log is longer is more up-to-date.'"""
    assert LogPoint(2, 3) > LogPoint(1, 9)
    assert LogPoint(2, 4) > LogPoint(2, 3)


def test_records_come_only_with_an_answer_that_found_the_logs_to_agree() -> None:
    assert RaftFetchAnswer(1, 1, 1, HERE).is_sound
    assert not RaftFetchAnswer(1, 1, 1, HERE, Code.FENCED_LEADER_EPOCH).is_sound
    assert not RaftFetchAnswer(1, 1, 1, HERE, diverging=LogPoint(1, 2)).is_sound
    assert not RaftFetchAnswer(1, 1, 1, HERE, snapshot=LogPoint(1, 9)).is_sound
