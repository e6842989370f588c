"""What consumers of the classic protocol say to each other, read and written."""

from __future__ import annotations

import pytest

from chronik.core.errors import Corrupt
from chronik.core.machines.groups.consumer_protocol import (
    NamedPartition,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tests.unit.core.machines.groups.host import subscription

OWNED = NamedPartition("orders", 1)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_a_subscription_of_every_version_is_read(version: int) -> None:
    read = read_subscription(subscription("orders", "bills", owned=[OWNED], version=version))
    assert (read.version, read.topics) == (version, ("orders", "bills"))
    assert read.owned == (frozenset({OWNED}) if version >= 1 else frozenset())
    assert read.rack_id == ("rack" if version >= 3 else None)


def test_a_client_may_say_a_version_and_leave_its_last_fields_out() -> None:
    old = subscription("orders", version=0)
    assert read_subscription(b"\x00\x03" + old[2:]).owned == frozenset()


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"sub", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01\x00\x00\x00\x05"])
def test_a_subscription_that_is_none_is_corrupt(metadata: bytes) -> None:
    with pytest.raises(Corrupt):
        read_subscription(metadata)


def test_an_assignment_is_written_as_kafka_s_consumers_read_it() -> None:
    written = write_assignment(1, frozenset({NamedPartition("t", 2), NamedPartition("t", 0)}))
    # version, one topic, its name, two partitions, no user data
    assert written.hex() == "0001" + "00000001" + "000174" + "00000002" + "00000000" + "00000002" + "ffffffff"
    assert read_assignment(written).partitions == {("t", 0), ("t", 2)}
    assert read_assignment(b"").partitions == frozenset()


def test_a_version_that_is_not_known_yet_is_answered_in_the_newest_that_is() -> None:
    assert write_assignment(9, frozenset())[:2] == b"\x00\x03"
