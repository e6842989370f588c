"""Batches are written many in a line, and read as the events that they stand for, whatever version wrote them."""

from __future__ import annotations

from chronik.trace.events import ProduceAnswered, ProduceAppended, TraceBegan
from chronik.trace.lines import (
    Answered,
    BatchLine,
    BatchRun,
    Produced,
    ProducedBatches,
    Taken,
    count_of,
    from_lines,
    to_lines,
)

WHO = "orders", 2, "app", "10.0.0.7", 5, -1


def test_batches_of_a_run_are_answered_in_order_and_those_behind_are_not() -> None:
    batches = [
        Taken(1_000_000_900, 90, 1500, 7, 0, 40, 100, 109, -1, True),
        Taken(1_000_200_000, 91, 70, 7, 0, 50, 110, 110, -1, True),
        Taken(1_000_300_000, 91, 1500, 7, 0, 40, 100, 109, -1, False),
        Taken(1_000_400_000, 92, 10, 7, 0, 51, 111, 111, -1, True),
    ]
    answers = [Answered(1, 1_000_500_100, 110, (1, 2)), Answered(2, 1_000_900_000, 111, (1,))]
    run = BatchRun(2_000_000, 1, *WHO, 3, batches, answers)

    told = from_lines(to_lines([run]))

    assert told == [
        ProduceAppended(1_000_000, 1, *WHO, 7, 0, 40, 100, 110, 1500, False, 3, 90),
        ProduceAnswered(1_000_500, 1, *WHO, 100, 110, 90, 110, (1, 2), 500),
        ProduceAppended(1_000_200, 1, *WHO, 7, 0, 50, 110, 111, 70, False, 3, 91),
        ProduceAnswered(1_000_900, 1, *WHO, 110, 111, 91, 111, (1,), 700),
        ProduceAppended(1_000_300, 1, *WHO, 7, 0, 40, 100, 110, 1500, True, 3, 91),
        ProduceAnswered(1_000_900, 1, *WHO, 100, 110, 91, 111, (1,), 600),
        ProduceAppended(1_000_400, 1, *WHO, 7, 0, 51, 111, 112, 10, False, 3, 92),
    ]
    assert count_of([run, TraceBegan(1, 1)]) == len(told) + 1


def test_a_clock_that_was_set_back_makes_no_answer_earlier_than_its_batch() -> None:
    batch, answer = Taken(5_000_000, 0, 70, -1, -1, -1, 0, 0, -1, True), Answered(1, 4_000_000, 1, ())

    appended, answered = from_lines(to_lines([BatchRun(9_000, 1, *WHO, 3, [batch], [answer])]))

    assert isinstance(answered, ProduceAnswered)
    assert (appended.at_us, answered.at_us, answered.took_us) == (5_000, 5_000, 0)


def test_a_run_is_written_as_arrays_in_the_order_that_the_page_gives() -> None:
    batch, answer = Taken(1, 2, 3, 4, 5, 6, 7, 8, 9, True), Answered(1, 2, 3, (4,))

    line = to_lines([BatchRun(20, 1, *WHO, 3, [batch], [answer])])

    assert b'"batches":[[1,2,3,4,5,6,7,8,9,true]],"answers":[[1,2,3,[4]]]' in line


def test_a_batch_of_version_2_is_read_as_its_two_steps() -> None:
    batch = Produced(
        1_000_500, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 7, 0, 40, 100, 110, 1500, False, 3, 90, 110, (1, 2), 500
    )

    appended, answered = from_lines(to_lines([batch]))

    assert appended == ProduceAppended(
        1_000_000, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 7, 0, 40, 100, 110, 1500, False, 3, 90
    )
    assert answered == ProduceAnswered(
        1_000_500, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 100, 110, 90, 110, (1, 2), 500
    )
    assert count_of([batch, TraceBegan(1, 1)]) == 3


def test_batches_of_version_3_are_read_as_their_steps() -> None:
    first = BatchLine(1_000_000, 500, 7, 0, 40, 100, 110, 1500, False, 90, 110, (1, 2))
    retry = BatchLine(1_000_200, 900, 7, 0, 40, 100, 110, 1500, True, 110, 111, (1,))
    run = ProducedBatches(1_002_000, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 3, [first, retry])

    told = from_lines(to_lines([run]))

    assert told == [
        ProduceAppended(1_000_000, 1, *WHO, 7, 0, 40, 100, 110, 1500, False, 3, 90),
        ProduceAnswered(1_000_500, 1, *WHO, 100, 110, 90, 110, (1, 2), 500),
        ProduceAppended(1_000_200, 1, *WHO, 7, 0, 40, 100, 110, 1500, True, 3, 110),
        ProduceAnswered(1_001_100, 1, *WHO, 100, 110, 110, 111, (1,), 900),
    ]
    assert count_of([run, TraceBegan(1, 1)]) == 5


def test_version_3_had_arrays_in_the_order_that_the_page_gives() -> None:
    batch = BatchLine(1, 2, 3, 4, 5, 6, 7, 8, False, 9, 10, (11,))
    run = ProducedBatches(20, 1, "orders", 2, "app", "10.0.0.7", 5, -1, 3, [batch])

    assert b'"batches":[[1,2,3,4,5,6,7,8,false,9,10,[11]]]' in to_lines([run])


def test_a_trace_of_the_first_version_is_read_as_it_is() -> None:
    first = (
        b'{"kind":"produce_answered","at_us":9,"node":1,"topic":"t","partition":0,"client_id":"a","host":"h",'
        b'"connection":5,"acks":1,"base_offset":0,"to_offset":1,"watermark_before":0,"watermark":1,"in_sync":[1],'
        b'"took_us":4}\n'
    )

    assert from_lines(first) == [ProduceAnswered(9, 1, "t", 0, "a", "h", 5, 1, 0, 1, 0, 1, (1,), 4)]
