"""The judge must be able to say no: each broken promise is found, and what is right is not."""

from __future__ import annotations

import pytest

from chronik.core.records.payload import KeyValue, build
from chronik.core.types import TopicPartition
from chronik.sim.checkers import Judge, OneNode
from chronik.sim.story import Violation, WorldStory

NAME = TopicPartition("topic", 0)


@pytest.fixture
def judge() -> Judge:
    made = Judge(WorldStory(lambda: 0.0))
    made.sent(NAME, [b"idem:0:", b"idem:1:", b"idem:2:"], is_idempotent=True)
    made.sent(NAME, [b"plain:0:"], is_idempotent=False)
    return made


def records(*values: bytes, base_offset: int = 0) -> bytes:
    return bytes(build([KeyValue(None, value) for value in values], 1, base_offset=base_offset))


def test_what_was_sent_and_acknowledged_may_be_read(judge: Judge) -> None:
    judge.acknowledged("p", NAME, 0, [b"idem:0:", b"idem:1:"])

    assert judge.read("c", NAME, 0, records(b"idem:0:", b"idem:1:"), 2, 0) == 2
    judge.complete(NAME, 2, {0: b"idem:0:", 1: b"idem:1:"})


def test_a_fetch_may_begin_within_a_batch(judge: Judge) -> None:
    assert judge.read("c", NAME, 1, records(b"idem:0:", b"idem:1:"), 2, 0) == 2


def test_an_acknowledged_record_that_is_gone_is_found(judge: Judge) -> None:
    judge.acknowledged("p", NAME, 0, [b"idem:0:", b"idem:1:"])

    with pytest.raises(Violation, match="offset 1 was acknowledged"):
        judge.complete(NAME, 1, {0: b"idem:0:"})


def test_another_record_in_an_acknowledged_place_is_found(judge: Judge) -> None:
    judge.acknowledged("p", NAME, 0, [b"idem:0:"])

    with pytest.raises(Violation, match="acknowledged was idem:0:"):
        judge.read("c", NAME, 0, records(b"plain:0:"), 1, 0)


def test_a_record_that_changes_after_it_was_read_is_found(judge: Judge) -> None:
    judge.read("c", NAME, 0, records(b"plain:0:"), 1, 0)

    with pytest.raises(Violation, match="read before"):
        judge.read("c", NAME, 0, records(b"idem:0:"), 1, 0)


def test_a_gap_is_found(judge: Judge) -> None:
    with pytest.raises(Violation, match="offset 1 where 0 is due"):
        judge.read("c", NAME, 0, records(b"idem:0:", base_offset=1), 2, 0)


def test_a_record_beyond_the_watermark_is_found(judge: Judge) -> None:
    with pytest.raises(Violation, match="the watermark is 1"):
        judge.read("c", NAME, 0, records(b"idem:0:", b"idem:1:"), 1, 0)


def test_a_watermark_that_goes_back_is_found(judge: Judge) -> None:
    judge.watermark("c", NAME, 5, 0)

    judge.watermark("c", NAME, 3, 0)  # asked for before the 5 was known: a late answer
    with pytest.raises(Violation, match="went back from 5 to 4"):
        judge.watermark("c", NAME, 4, 5)


def test_a_duplicate_of_an_idempotent_producer_is_found(judge: Judge) -> None:
    with pytest.raises(Violation, match="at 0 and at 1"):
        judge.read("c", NAME, 0, records(b"idem:0:", b"idem:0:"), 2, 0)


def test_a_duplicate_of_a_plain_producer_is_its_own_affair(judge: Judge) -> None:
    assert judge.read("c", NAME, 0, records(b"plain:0:", b"plain:0:"), 2, 0) == 2


def test_records_out_of_order_are_found(judge: Judge) -> None:
    with pytest.raises(Violation, match="out of order"):
        judge.complete(NAME, 2, {0: b"idem:1:", 1: b"idem:0:"})


def test_bytes_that_nobody_sent_are_found(judge: Judge) -> None:
    with pytest.raises(Violation, match="nothing sent"):
        judge.read("c", NAME, 0, records(b"idem:9:"), 1, 0)


def test_damaged_bytes_are_found(judge: Judge) -> None:
    damaged = bytearray(records(b"idem:0:"))
    damaged[-1] ^= 1

    with pytest.raises(Violation, match="checksum"):
        judge.read("c", NAME, 0, bytes(damaged), 1, 0)


def test_an_error_that_looks_like_success_is_found(judge: Judge) -> None:
    with pytest.raises(Violation, match="offset -1"):
        judge.acknowledged("p", NAME, -1, [b"idem:0:"])


def test_a_lost_commit_is_found(judge: Judge) -> None:
    judge.committed("group", NAME, 7, ("a", 1))

    judge.commit_read("c", "group", NAME, 7, judge.commit_known("group", NAME))
    with pytest.raises(Violation, match="had committed 7"):
        judge.commit_read("c", "group", NAME, -1, judge.commit_known("group", NAME))


def test_a_commit_that_was_given_up_may_arrive_after_a_later_one(judge: Judge) -> None:
    judge.commit_given_up("group", NAME, 5, ("a", 1))
    judge.committed("group", NAME, 7, ("a", 1))

    with pytest.raises(Violation, match="had committed 7"):
        judge.commit_read("c", "group", NAME, 6, judge.commit_known("group", NAME))
    judge.commit_read("c", "group", NAME, 5, judge.commit_known("group", NAME))
    with pytest.raises(Violation, match="had committed 5"):
        judge.commit_read("c", "group", NAME, 4, judge.commit_known("group", NAME))


def test_the_next_member_goes_on_from_the_commit_that_came_late(judge: Judge) -> None:
    judge.commit_given_up("group", NAME, 5, ("a", 1))
    judge.committed("group", NAME, 7, ("a", 1))
    asked_when_known = judge.commit_known("group", NAME)
    judge.committed("group", NAME, 6, ("b", 2))

    judge.commit_read("c", "group", NAME, 6, asked_when_known)
    with pytest.raises(Violation, match="had committed 6"):
        judge.commit_read("c", "group", NAME, 5, judge.commit_known("group", NAME))


@pytest.mark.parametrize("by", [("a", 2), ("b", 1)])
def test_a_commit_that_was_given_up_is_refused_once_another_epoch_has_committed(
    judge: Judge, by: tuple[str, int]
) -> None:
    judge.commit_given_up("group", NAME, 5, ("a", 1))
    judge.committed("group", NAME, 7, by)

    with pytest.raises(Violation, match="had committed 7"):
        judge.commit_read("c", "group", NAME, 5, judge.commit_known("group", NAME))


def test_two_owners_in_one_generation_are_found(judge: Judge) -> None:
    judge.owns("group", 1, NAME, "a")
    judge.owns("group", 1, NAME, "a")
    judge.owns("group", 2, NAME, "b")

    with pytest.raises(Violation, match="belongs to a and to b"):
        judge.owns("group", 1, NAME, "b")


def test_a_leader_that_was_left_behind_need_not_know_what_the_next_one_told(judge: Judge) -> None:
    judge.watermark("c", NAME, 5, 0, leader_epoch=2)

    assert judge.known(NAME).watermark_at(1) == 0
    assert judge.known(NAME).watermark_at(2) == 5
    assert judge.known(NAME).watermark_at(3) == 5
    assert judge.known(NAME).watermark_within(2) == 5
    assert judge.known(NAME).watermark_within(3) == 0


class Moved(OneNode):
    """A truth in which another leads by now."""

    def __init__(self, leader_epoch: int, in_sync: tuple[int, ...] = (), hidden_end: int = 0) -> None:
        self._leader_epoch = leader_epoch
        self._in_sync = in_sync
        self._hidden_end = hidden_end

    def hidden_end(self, name: TopicPartition) -> int:
        return self._hidden_end

    def leader_epoch(self, name: TopicPartition) -> int:
        return self._leader_epoch

    def log_of(self, group: str) -> TopicPartition | None:
        return NAME if group == "group" else None

    def in_sync(self, name: TopicPartition) -> tuple[int, ...]:
        return self._in_sync


def test_a_leaders_word_holds_as_long_as_it_leads(judge: Judge) -> None:
    judge.acknowledged("p", NAME, 0, [b"plain:0:"], leader_epoch=3)
    judge.truth = Moved(leader_epoch=3)

    with pytest.raises(Violation, match="acknowledged by its leader"):
        judge.complete(NAME, 0, {})


def test_a_leaders_word_may_wait_above_the_watermark_as_long_as_it_is_in_its_log(judge: Judge) -> None:
    judge.acknowledged("p", NAME, 0, [b"plain:0:"], leader_epoch=3)
    judge.truth = Moved(leader_epoch=3, hidden_end=1)

    judge.complete(NAME, 0, {})


def test_a_leaders_word_ends_with_its_leadership(judge: Judge) -> None:
    judge.acknowledged("p", NAME, 0, [b"plain:0:"], leader_epoch=3)
    judge.truth = Moved(leader_epoch=4)

    judge.complete(NAME, 0, {})


def test_damage_excuses_a_refusal_only_where_no_other_copy_has_all(judge: Judge) -> None:
    judge.damaged(NAME, 1)
    alone = judge.may_refuse(NAME)
    judge.truth = Moved(1, in_sync=(1, 2))
    with_another = judge.may_refuse(NAME)
    judge.damaged(NAME, 2)

    assert (alone, with_another, judge.may_refuse(NAME)) == (True, False, True)
    judge.repaired(NAME, 2)
    assert not judge.may_refuse(NAME)


def test_a_group_may_be_refused_when_the_log_of_its_coordinator_is_damaged(judge: Judge) -> None:
    judge.truth = Moved(1, in_sync=(1,))
    before = judge.may_refuse_group("group")
    judge.damaged(NAME, 1)

    assert (before, judge.may_refuse_group("group"), judge.may_refuse_group("another")) == (False, True, False)
