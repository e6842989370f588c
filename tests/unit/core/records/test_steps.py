"""Long work in short steps."""

from __future__ import annotations

import pytest

from chronik.core.records.steps import Finished, Steps, Unfinished, Work, begin, finish


def counting(steps: int) -> Steps[int]:
    for _ in range(steps):
        yield None
    return steps


def test_work_is_done_once_whether_on_a_thread_or_when_it_is_wanted() -> None:
    done: list[int] = []
    elsewhere, here = (Work(lambda: done.append(1)) for _ in range(2))
    elsewhere.run()
    for work in (elsewhere, elsewhere, here, here):
        work.result()
    assert len(done) == 2


def test_what_goes_wrong_elsewhere_is_raised_where_the_result_is_wanted() -> None:
    def fail() -> int:
        raise ValueError("no")

    work = Work(fail)
    work.run()
    with pytest.raises(ValueError, match="no"):
        work.result()


def test_steps_can_be_taken_all_at_once() -> None:
    assert finish(counting(3)) == 3


def test_what_is_over_with_its_first_step_is_told_from_what_is_not() -> None:
    assert begin(counting(0)) == Finished(0)
    begun = begin(counting(2))
    assert isinstance(begun, Unfinished)
    assert begun.step is None
    assert finish(begun.steps) == 2
