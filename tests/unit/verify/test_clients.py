"""A client is found by its name, and a second reader is another one."""

from __future__ import annotations

import pytest

from chronik.verify.clients.choice import another_than, open_client
from chronik.verify.clients.protocol import Sending, is_in_vain
from chronik.verify.errors import Stopped
from chronik.verify.ledger import Ledger
from chronik.verify.settings import ClientName, VerifyAcks


@pytest.mark.parametrize("name", list(ClientName))
def test_every_client_says_its_version(name: ClientName) -> None:
    assert open_client(name, "127.0.0.1:1").version[0].isdigit()


@pytest.mark.parametrize("name", list(ClientName))
def test_the_second_reader_is_another_client_that_is_always_installed(name: ClientName) -> None:
    assert another_than(name) is not name
    assert another_than(name) is not ClientName.AIOKAFKA


def test_an_even_spread_goes_round_the_partitions() -> None:
    order = Sending("t", "c", VerifyAcks.ALL, True, 60.0, 3, lambda: False)

    assert [order.partition(number) for number in range(5)] == [0, 1, 2, 0, 1]


def test_a_spread_by_the_client_names_no_partition() -> None:
    assert Sending("t", "c", VerifyAcks.ALL, True, 60.0, None, lambda: False).partition(4) is None


def test_sending_is_in_vain_when_nothing_was_acknowledged_for_twice_a_messages_time() -> None:
    now_s = 0.0
    ledger = Ledger(10, lambda: now_s)
    order = Sending("t", "c", VerifyAcks.ALL, True, 5.0, 3, lambda: False)

    now_s = 10.0
    assert not is_in_vain(order, ledger)
    now_s = 10.1
    assert is_in_vain(order, ledger)
    ledger.acknowledge(0, 0, 0)
    assert not is_in_vain(order, ledger)


def test_sending_that_is_to_stop_stops() -> None:
    with pytest.raises(Stopped):
        is_in_vain(Sending("t", "c", VerifyAcks.ALL, True, 5.0, 3, lambda: True), Ledger(10, lambda: 0.0))
