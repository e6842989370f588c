"""What goes to Spark of an error: our words without our frames, unless it is a fault of ours."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from chronik.pipeline.brief import brief, briefly
from chronik.pipeline.topics.client import NoSuchTopic


def deep_inside(problem: Exception) -> None:
    try:
        raise OSError("the network")
    except OSError as cause:
        raise problem from cause


@brief
def planned(problem: Exception) -> None:
    deep_inside(problem)


def some_rows(problem: Exception) -> Iterator[int]:
    yield 1
    deep_inside(problem)


def shown(problem: BaseException) -> str:
    return "".join(traceback.format_exception(problem))


def test_what_is_said_in_words_comes_without_the_way_it_came() -> None:
    with pytest.raises(NoSuchTopic) as planning:
        planned(NoSuchTopic("there is no topic 'x'"))
    with pytest.raises(NoSuchTopic) as reading:
        list(briefly(some_rows(NoSuchTopic("there is no topic 'x'"))))

    for raised in (planning, reading):
        assert shown(raised.value).endswith("there is no topic 'x'\n")
        assert "deep_inside" not in shown(raised.value)
        assert "the network" not in shown(raised.value)


def test_a_fault_keeps_its_frames() -> None:
    with pytest.raises(KeyError) as planning:
        planned(KeyError("ours"))
    with pytest.raises(KeyError) as reading:
        list(briefly(some_rows(KeyError("ours"))))

    assert all("deep_inside" in shown(raised.value) for raised in (planning, reading))


def test_what_was_read_before_the_error_is_given() -> None:
    rows = briefly(some_rows(NoSuchTopic("gone")))

    assert next(rows) == 1
