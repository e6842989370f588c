"""Names that would not fit into a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.core.errors import Code
from chronik.core.machines.groups.commands import OffsetToCommit
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.limits import NAME_CHARS_MAX, PROTOCOLS_MAX, SUBSCRIPTION_BYTES_MAX
from tests.unit.core.machines.groups.host import Host, commit, consumer_beat, fetch, join

LONG = "€" * (NAME_CHARS_MAX + 1)
LONGEST = "\N{GRINNING FACE}" * NAME_CHARS_MAX


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (join(group_id=LONG), Code.INVALID_GROUP_ID),
        (join(client_id=LONG), Code.INVALID_REQUEST),
        (join(new_member_id=LONG), Code.INVALID_REQUEST),
        (join(instance_id=LONG), Code.INVALID_REQUEST),
        (join(protocol_type=LONG), Code.INVALID_REQUEST),
        (join(protocols=((LONG, b""),)), Code.INVALID_REQUEST),
        (consumer_beat(LONG, 0), Code.INVALID_REQUEST),
        (replace(consumer_beat("m", 0), group_id=LONG), Code.INVALID_GROUP_ID),
        (commit(OffsetToCommit("t", 0, 1), group_id=LONG), Code.INVALID_GROUP_ID),
        (commit(OffsetToCommit(LONG, 0, 1)), Code.INVALID_REQUEST),
    ],
    ids=range(10),
)
def test_a_name_that_is_too_long_is_refused_and_changes_nothing(command: Any, code: Code) -> None:
    host = Host()
    assert host.ask(command) is code
    assert host.machine.groups == {}


def test_the_longest_names_fit_into_the_log() -> None:
    host = Host()
    host.ask(commit(OffsetToCommit(LONGEST, 0, 1), group_id=LONGEST))
    host.ask(replace(consumer_beat(LONGEST, 0), group_id=LONGEST))
    assert len(host.restarted().ask(fetch(group_id=LONGEST)).offsets) == 1


def test_asking_about_a_long_name_is_no_error() -> None:
    assert Host().ask(fetch(group_id=LONG)).offsets == ()


@pytest.mark.parametrize(
    "command",
    [
        join(protocols=(("range", bytes(SUBSCRIPTION_BYTES_MAX)), ("rr", b"!"))),
        join(protocols=tuple((str(number), b"") for number in range(PROTOCOLS_MAX + 1))),
        replace(consumer_beat("m", 0), subscribed_topics=("t" * 1000,) * 2000),
        replace(consumer_beat("m", 0), subscribed_regex=LONG),
        replace(consumer_beat("m", 0), instance_id=LONG),
    ],
    ids=range(5),
)
def test_a_member_that_wants_too_much_is_refused_and_changes_nothing(command: Any) -> None:
    host = Host()
    assert host.ask(command) is Code.INVALID_REQUEST
    assert host.machine.groups == {}


def test_a_coordinator_has_so_many_groups_and_no_more() -> None:
    host = Host(GroupConfig(groups_max=2))
    for group_id in ("a", "b"):
        host.ask(commit(OffsetToCommit("t", 0, 1), group_id=group_id))
    for more in (commit(OffsetToCommit("t", 0, 1), group_id="c"), join(group_id="c"), consumer_beat("m", 0)):
        assert host.ask(replace(more, group_id="c")) is Code.GROUP_MAX_SIZE_REACHED
    assert host.ask(commit(OffsetToCommit("t", 0, 2), group_id="a")) is not Code.GROUP_MAX_SIZE_REACHED
    assert sorted(host.machine.groups) == ["a", "b"]
