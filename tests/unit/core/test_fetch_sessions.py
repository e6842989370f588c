"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.fetch_sessions import EVICT_AFTER_MS, FetchSession, FetchSessions

A, B, C = ("a", 0), ("a", 1), ("b", 0)


def session_of(*keys: tuple[str, int]) -> FetchSession:
    session = FetchSession(7, 0, has_ids=False)
    for key in keys:
        session.put(key, 0, 1000, -1)
    return session


def refusal(sessions: FetchSessions, session_id: int, epoch: int, *, has_ids: bool = False) -> Code:
    with pytest.raises(Refused) as caught:
        sessions.resume(session_id, epoch, 0, has_ids=has_ids)
    return caught.value.code


# --- what is news


def test_a_partition_is_news_until_it_was_told() -> None:
    session = session_of(A)

    assert session.is_news(A, 0, 10, 0, has_records=False)
    assert not session.is_news(A, 0, 10, 0, has_records=False)


@pytest.mark.parametrize(("high_watermark", "start_offset"), [(11, 0), (10, 1)])
def test_a_watermark_or_log_start_that_moved_is_news(high_watermark: int, start_offset: int) -> None:
    session = session_of(A)
    session.is_news(A, 0, 10, 0, has_records=False)

    assert session.is_news(A, 0, high_watermark, start_offset, has_records=False)
    assert not session.is_news(A, 0, high_watermark, start_offset, has_records=False)


def test_records_are_always_news() -> None:
    session = session_of(A)

    assert all(session.is_news(A, 0, 10, 0, has_records=True) for _ in range(3))


def test_an_error_is_news_each_time_and_so_is_its_end() -> None:
    session = session_of(A)
    session.is_news(A, 0, 10, 0, has_records=False)

    assert session.is_news(A, 3, -1, -1, has_records=False)
    assert session.is_news(A, 3, -1, -1, has_records=False)
    assert session.is_news(A, 0, 10, 0, has_records=False)
    assert not session.is_news(A, 0, 10, 0, has_records=False)


def test_a_partition_that_left_the_session_meanwhile_is_told_as_it_is() -> None:
    assert session_of(A).is_news(B, 0, 10, 0, has_records=False)


# --- whose turn it is


def test_partitions_that_were_given_records_go_to_the_end_of_the_line() -> None:
    session = session_of(A, B, C)

    session.is_news(A, 0, 10, 0, has_records=True)
    assert list(session.partitions) == [B, C, A]
    session.is_news(B, 0, 10, 0, has_records=False)
    assert list(session.partitions) == [B, C, A]
    session.is_news(B, 0, 10, 0, has_records=True)

    assert list(session.partitions) == [C, A, B]


def test_a_partition_asked_for_again_keeps_its_place_and_gets_its_new_offset() -> None:
    session = session_of(A, B)
    session.is_news(A, 0, 10, 0, has_records=False)

    session.put(A, 55, 2000, 3)

    asked = session.partitions[A]
    assert (asked.fetch_offset, asked.max_bytes, asked.leader_epoch) == (55, 2000, 3)
    assert list(session.partitions) == [A, B]
    assert not session.is_news(A, 0, 10, 0, has_records=False)


def test_a_forgotten_partition_is_gone_and_new_when_it_comes_back() -> None:
    session = session_of(A, B)
    session.is_news(A, 0, 10, 0, has_records=False)

    session.forget(A)
    session.forget(C)
    assert list(session.partitions) == [B]
    session.put(A, 0, 1000, -1)

    assert session.is_news(A, 0, 10, 0, has_records=False)


# --- the sessions of a node


def test_each_request_of_a_session_has_the_next_epoch() -> None:
    sessions = FetchSessions(10)
    session = sessions.create(7, 0)

    assert sessions.resume(7, 1, 0) is session
    assert sessions.resume(7, 2, 0) is session
    assert refusal(sessions, 7, 2) == Code.INVALID_FETCH_SESSION_EPOCH
    assert refusal(sessions, 7, 4) == Code.INVALID_FETCH_SESSION_EPOCH

    assert sessions.resume(7, 3, 0) is session


def test_after_the_last_epoch_comes_1() -> None:
    sessions = FetchSessions(10)
    session = sessions.create(7, 0)
    assert session is not None
    session.epoch = 2**31 - 1

    sessions.resume(7, 2**31 - 1, 0)

    assert sessions.resume(7, 1, 0) is session


def test_an_unknown_or_closed_session_is_refused() -> None:
    sessions = FetchSessions(10)
    sessions.create(7, 0)
    assert refusal(sessions, 8, 1) == Code.FETCH_SESSION_ID_NOT_FOUND

    sessions.close(7)
    sessions.close(7)

    assert refusal(sessions, 7, 1) == Code.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


def test_a_session_by_names_does_not_go_on_by_ids_nor_the_other_way() -> None:
    sessions = FetchSessions(10)
    sessions.create(7, 0, has_ids=False)
    sessions.create(8, 0, has_ids=True)

    assert refusal(sessions, 7, 1, has_ids=True) == Code.FETCH_SESSION_TOPIC_ID_ERROR
    assert refusal(sessions, 8, 1, has_ids=False) == Code.FETCH_SESSION_TOPIC_ID_ERROR

    assert sessions.resume(7, 1, 0, has_ids=False).session_id == 7  # being refused did not use up the epoch


def test_an_id_that_is_taken_gives_no_session() -> None:
    sessions = FetchSessions(10)
    first = sessions.create(7, 0)

    assert sessions.create(7, 0) is None
    assert sessions.resume(7, 1, 0) is first


def test_when_all_places_are_taken_the_client_goes_on_without() -> None:
    sessions = FetchSessions(2)
    sessions.create(1, 0)
    sessions.create(2, 0)

    assert sessions.create(3, EVICT_AFTER_MS) is None
    assert len(sessions) == 2
    assert FetchSessions(0).create(1, 0) is None


def test_the_session_that_was_unused_longest_makes_room_once_it_is_old() -> None:
    sessions = FetchSessions(2)
    sessions.create(1, 0)
    sessions.create(2, 0)
    sessions.resume(1, 1, 10)

    assert sessions.create(3, EVICT_AFTER_MS + 1) is not None

    assert refusal(sessions, 2, 1) == Code.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(1, 2, 20).session_id == 1
