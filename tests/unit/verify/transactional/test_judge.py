"""What a reader of committed records may be given: each way in which it can be wrong is told apart."""

from __future__ import annotations

import pytest

from chronik.verify.transactional.judge import Findings, ReadMessage, judge_copy, judge_produced
from chronik.verify.transactional.plan import TransactionBook, TransactionOutcome, TransactionPlan

COMMITTED, ABORTED, IN_DOUBT = TransactionOutcome
PLAN = TransactionPlan(10, 4, 0.0, "mark")  # 0-3, 4-7, 8-9


def read(*numbers: int) -> list[ReadMessage]:
    return [ReadMessage(number, 0) for number in numbers]


def judged(outcomes: tuple[TransactionOutcome, ...], *numbers: int) -> Findings:
    return judge_produced(PLAN, TransactionBook(dict(enumerate(outcomes))), read(*numbers))


def test_all_that_was_committed_and_nothing_else_is_clean() -> None:
    found = judged((COMMITTED, ABORTED, COMMITTED), 0, 1, 2, 3, 8, 9)
    assert found.is_clean
    assert found.lines(is_read_whole=True) == []


@pytest.mark.parametrize(
    ("numbers", "what", "line"),
    [
        ((0, 1, 3, 8, 9), "missing", "1 messages were committed and not read: 2"),
        ((0, 1, 2, 3, 5, 8, 9), "aborted_read", "1 messages were aborted, and read with read_committed: 5"),
        ((0, 1, 2, 2, 3, 8, 9), "duplicated", "1 messages were read more than once: 2"),
        ((0, 2, 1, 3, 8, 9), "reordered", "1 messages were read after later ones of their partition: 1"),
        ((0, 1, 2, 3, 8, 9, -1), "foreign", "1 records are of no message that was sent"),
    ],
)
def test_what_is_wrong_is_called_what_it_is(numbers: tuple[int, ...], what: str, line: str) -> None:
    found = judged((COMMITTED, ABORTED, COMMITTED), *numbers)

    assert not found.is_clean
    assert line in found.lines(is_read_whole=True)
    others = {"missing", "aborted_read", "torn", "duplicated", "reordered", "foreign"} - {what}
    if what != "foreign":  # a record without a number is out of order as well
        assert not any(getattr(found, name) for name in others)


def test_a_transaction_in_doubt_counts_whole_or_not_at_all() -> None:
    assert judged((COMMITTED, IN_DOUBT, COMMITTED), 0, 1, 2, 3, 8, 9).is_clean
    whole = judged((COMMITTED, IN_DOUBT, COMMITTED), *range(10))
    assert (whole.is_clean, list(whole.kept)) == (True, [1])

    torn = judged((COMMITTED, IN_DOUBT, COMMITTED), 0, 1, 2, 3, 5, 6, 8, 9)
    assert (torn.is_clean, list(torn.torn)) == (False, [5, 6])


def test_what_is_missing_is_not_called_lost_by_a_reader_that_did_not_come_to_the_end() -> None:
    found = judged((COMMITTED, COMMITTED, COMMITTED), 0, 1)
    assert found.lines(is_read_whole=False)[0].startswith("8 messages are missing: the reader did not come to the end")


def test_a_copy_equals_its_input_or_is_said_to_differ() -> None:
    source = [ReadMessage(number, number % 2) for number in range(6)]
    assert judge_copy(source, source).is_clean
    assert judge_copy(source, source[:-1]).missing == [5]
    assert judge_copy(source, [*source, source[5]]).duplicated == [5]
    assert judge_copy(source, [*source, ReadMessage(7, 0)]).foreign == 1
    assert judge_copy(source, [source[2], source[0], *source[1:2], *source[3:]]).reordered == [0]


def test_a_plan_covers_every_message_and_aborts_the_same_ones_again() -> None:
    assert [list(PLAN.numbers(one)) for one in range(len(PLAN))] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    plan = TransactionPlan(10_000, 10, 0.2, "mark")
    aborted = [plan.is_aborted(one) for one in range(len(plan))]
    assert aborted == [plan.is_aborted(one) for one in range(len(plan))]
    assert 0.15 < sum(aborted) / len(plan) < 0.25
