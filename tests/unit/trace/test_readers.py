"""Whose fetch it is, when the client said its group elsewhere."""

from __future__ import annotations

from chronik.trace.readers import CLIENTS_MAX, FORGET_US, Readers


def test_a_client_is_known_by_its_id_and_host() -> None:
    readers = Readers()
    readers.heard("billing", "app", "10.0.0.7", 0)

    assert readers.group_of("app", "10.0.0.7", 1) == "billing"
    assert readers.group_of("app", "10.0.0.8", 1) is None
    assert readers.group_of("other", "10.0.0.7", 1) is None


def test_where_two_groups_may_be_meant_none_is_named() -> None:
    readers = Readers()
    readers.heard("billing", "rdkafka", "10.0.0.7", 0)
    readers.heard("audit", "rdkafka", "10.0.0.7", 1)

    assert readers.group_of("rdkafka", "10.0.0.7", 2) is None


def test_a_group_that_is_long_gone_is_no_rival() -> None:
    readers = Readers()
    readers.heard("billing", "rdkafka", "10.0.0.7", 0)
    readers.heard("audit", "rdkafka", "10.0.0.7", 1)

    assert readers.group_of("rdkafka", "10.0.0.7", FORGET_US + 1) == "audit"
    readers.heard("audit", "rdkafka", "10.0.0.7", FORGET_US + 2)
    assert readers.group_of("rdkafka", "10.0.0.7", FORGET_US + 3) == "audit"


def test_a_group_that_is_alone_stays_known_however_quiet_it_is() -> None:
    readers = Readers()
    readers.heard("billing", "app", "10.0.0.7", 0)

    assert readers.group_of("app", "10.0.0.7", 100 * FORGET_US) == "billing"


def test_it_does_not_grow_without_end() -> None:
    readers = Readers()
    for number in range(CLIENTS_MAX + 10):
        readers.heard("billing", f"app-{number}", "10.0.0.7", number)

    assert len(readers._groups) <= CLIENTS_MAX
    assert readers.group_of(f"app-{CLIENTS_MAX + 9}", "10.0.0.7", 0) == "billing"


def test_a_group_whose_last_member_of_that_name_has_left_is_not_meant() -> None:
    readers = Readers()
    readers.heard("billing", "rdkafka", "10.0.0.7", 0)
    readers.heard("audit", "rdkafka", "10.0.0.7", 0)

    readers.left("billing", "rdkafka", "10.0.0.7")
    readers.left("billing", "rdkafka", "10.0.0.8")
    assert readers.group_of("rdkafka", "10.0.0.7", 1) == "audit"
    readers.left("audit", "rdkafka", "10.0.0.7")
    assert readers.group_of("rdkafka", "10.0.0.7", 1) is None
