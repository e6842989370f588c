"""What answers of a cluster are taken to say."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from chronik.client.admin import EARLIEST, LATEST, ClusterAdmin

UNANSWERED = -1001  # librdkafka's number for an offset that it does not have


class Asked(ClusterAdmin):
    """A cluster whose list-offsets answer is given: an offset or an error for each partition of topic t."""

    def __init__(self, *told: int | KafkaException) -> None:
        self.bootstrap = "localhost:1"
        self.told = told

    @property
    def admin(self) -> Any:
        return SimpleNamespace(list_offsets=self._list_offsets)

    def _list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        return {place: self._future(self.told[place.partition]) for place in wanted}

    def _future(self, told: int | KafkaException) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(told, int):
            future.set_result(SimpleNamespace(offset=told))
        else:
            future.set_exception(told)
        return future

    def asked(self, at: int) -> list[int | None]:
        return list(self.offsets([("t", number) for number in range(len(self.told))], at).values())


def test_the_end_of_a_log_that_was_not_told_is_not_known_and_never_below_0() -> None:
    # Seen with librdkafka 2.16 when a leader was killed: -1001, and no error. Taken for an end, the log was empty.
    cluster = Asked(7, 0, UNANSWERED, -1, KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))

    assert cluster.asked(LATEST) == [7, 0, None, None, None]
    assert cluster.asked(EARLIEST) == [7, 0, None, None, None]


def test_a_time_that_no_record_has_reached_is_told_apart_from_no_answer() -> None:
    assert Asked(7, -1, UNANSWERED).asked(1_700_000_000_000) == [7, -1, None]
