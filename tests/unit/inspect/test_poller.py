"""The eye looks again and again, and tells what it sees, also that nothing answers."""

from __future__ import annotations

import queue
from collections.abc import Callable

from chronik.client.request import NoAnswer
from chronik.inspect.live_model import ClusterSnapshot, LiveView
from chronik.inspect.poller import Away, Broken, Eye, Seen
from tests.unit.inspect.watched import led, snapshot, state

WAIT_S = 30.0


def looks(*outcomes: ClusterSnapshot | Exception) -> Callable[[], ClusterSnapshot]:
    """Gives one after the other, the last for ever."""
    left = list(outcomes)

    def look() -> ClusterSnapshot:
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return look


def test_a_cluster_that_goes_away_is_told_and_watched_again_when_it_is_back() -> None:
    here, later = snapshot(0.0, state(1, [led(watermark=100)])), snapshot(10.0, state(1, [led(watermark=200)]))
    eye = Eye(looks(here, NoAnswer("it hung up"), NoAnswer("it hung up"), later), 1.0)

    first, away, still_away, back = (eye.see() for _ in range(4))

    assert isinstance(first, LiveView)
    assert isinstance(away, Away)
    assert (str(away.problem), away.since_s) == ("it hung up", 0.0)
    assert isinstance(still_away, Away)
    assert still_away.since_s > 0.0
    assert isinstance(back, LiveView)
    assert back.rows[0].in_per_s == 10.0


def test_it_looks_on_a_thread_of_its_own_until_it_is_closed() -> None:
    told: queue.Queue[Seen] = queue.Queue()
    eye = Eye(looks(snapshot(0.0, state(1)), NoAnswer("gone"), snapshot(1.0, state(1))), 0.0)

    eye.open(told.put)

    kinds = [type(told.get(timeout=WAIT_S)) for _ in range(3)]
    eye.close()
    assert kinds == [LiveView, Away, LiveView]


def test_a_fault_of_ours_ends_the_watching_and_is_told() -> None:
    told: queue.Queue[Seen] = queue.Queue()
    eye = Eye(looks(ZeroDivisionError("a bug")), 0.0)

    eye.open(told.put)

    seen = told.get(timeout=WAIT_S)
    assert isinstance(seen, Broken)
    assert str(seen.error) == "a bug"


def test_who_is_slow_to_answer_does_not_keep_the_eye_from_being_closed() -> None:
    answer: queue.Queue[ClusterSnapshot] = queue.Queue()
    eye = Eye(lambda: answer.get(timeout=WAIT_S), 0.0)
    told: queue.Queue[Seen] = queue.Queue()
    eye.open(told.put)

    eye.close()  # while it waits
    answer.put(snapshot(0.0, state(1)))

    assert isinstance(told.get(timeout=WAIT_S), LiveView)
