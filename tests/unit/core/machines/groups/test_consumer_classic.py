"""Members of a consumer group that speak the classic protocol."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import HeartbeatSeen, Joined, MemberIdRequired
from chronik.core.machines.groups.commands import DescribeConsumerGroup, DescribeGroup, OffsetToCommit
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_protocol import read_assignment
from tests.unit.core.machines.groups.host import (
    GROUP,
    TOPICS,
    Host,
    beat,
    commit,
    consumer_beat,
    fetch,
    join,
    leave,
    subscription,
    sync,
    topic_id,
)

ORDERS = topic_id(1)
OFFSET = OffsetToCommit("orders", 0, 5)


def classic_join(member_id: str, owned: tuple[int, ...] = (), **changes: Any) -> Any:
    mine = subscription("orders", owned=[("orders", number) for number in owned])
    return join(member_id, **{"protocols": (("range", mine),), "topics": TOPICS, "new_member_id": "new", **changes})


def partitions(synced: Any) -> list[int]:
    return sorted(number for _, number in read_assignment(synced.assignment).partitions)


def owned(*numbers: int) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    return ((ORDERS, numbers),)


def mixed_group() -> Host:
    """c of the consumer protocol has orders 0 and 1, a of the classic protocol 2 and 3. Both are at epoch 2."""
    host = Host()
    host.send(consumer_beat("c", 0))
    host.send(classic_join("a"))
    host.send(sync("a", 2))
    host.send(consumer_beat("c", 1))
    host.send(consumer_beat("c", 1, owned=owned(0, 1)))
    host.send(classic_join("a"))
    assert partitions(host.ask(sync("a", 2))) == [2, 3]
    assert host.consumer().state == "Stable"
    return host


def test_a_new_member_is_given_its_id_first() -> None:
    """A new member is given its id first and then joins at once under nobody s lead."""
    host = Host()
    host.send(consumer_beat("c", 0))
    assert host.ask(classic_join("")) == MemberIdRequired("new")
    assert list(host.consumer().subscribers) == ["c"]
    assert host.ask(classic_join("new")) == Joined("new", 2, "consumer", "range", leader="")
    assert partitions(host.ask(sync("new", 2))) == []


def test_a_member_of_an_old_version_joins_without_an_id() -> None:
    host = Host()
    host.send(consumer_beat("c", 0))
    assert host.ask(classic_join("", needs_known_member_id=False)).member_id == "new"


def test_a_member_that_waits_for_partitions_is_told_to_rejoin_when_all_are_free() -> None:
    """A member that waits for partitions is told to rejoin when all of them are free."""
    host = Host()
    host.send(consumer_beat("c", 0))
    host.send(classic_join("a"))
    host.send(sync("a", 2))
    assert host.ask(beat("a", 2)) == HeartbeatSeen()
    host.send(consumer_beat("c", 1))
    assert host.ask(beat("a", 2)) == HeartbeatSeen()
    host.send(consumer_beat("c", 1, owned=owned(0, 1)))
    assert host.ask(beat("a", 2)) is Code.REBALANCE_IN_PROGRESS
    host.send(classic_join("a"))
    assert partitions(host.ask(sync("a", 2))) == [2, 3]


def test_an_eager_member_gives_up_all_and_gets_what_it_is_to_have_at_once() -> None:
    host = mixed_group()
    host.send(consumer_beat("d", 0))
    assert host.ask(beat("a", 2)) is Code.REBALANCE_IN_PROGRESS
    joined = host.ask(classic_join("a"))
    assert joined.generation == 3
    assert partitions(host.ask(sync("a", 3))) == [2]
    assert host.ask(consumer_beat("d", 3)).assignment == owned(3)


def test_a_cooperative_member_keeps_its_generation() -> None:
    """A cooperative member keeps its generation until it has given up what it must."""
    host = mixed_group()
    host.send(consumer_beat("d", 0))
    assert host.ask(classic_join("a", (2, 3))).generation == 2
    assert partitions(host.ask(sync("a", 2))) == [2]
    assert host.ask(beat("a", 2)) is Code.REBALANCE_IN_PROGRESS
    assert host.ask(consumer_beat("d", 3)).assignment is None
    assert host.ask(classic_join("a", (2,))).generation == 3
    assert host.ask(consumer_beat("d", 3)).assignment == owned(3)


def test_a_sync_is_refused_when_the_group_has_moved_on() -> None:
    host = mixed_group()
    host.send(classic_join("a"))
    host.send(consumer_beat("d", 0))
    assert host.ask(sync("a", 2)) is Code.REBALANCE_IN_PROGRESS
    assert host.ask(sync("a", 1)) is Code.ILLEGAL_GENERATION
    assert host.ask(sync("nobody", 2)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(sync("c", 2)) is Code.UNKNOWN_MEMBER_ID


def test_a_sync_of_another_protocol_is_refused() -> None:
    host = Host()
    host.send(consumer_beat("c", 0))
    host.send(classic_join("a", protocols=(("sticky", subscription("orders")),)))
    assert host.ask(sync("a", 2)) is Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", subscription("orders")),)}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"sub"),)}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, Code.INVALID_SESSION_TIMEOUT),
        ({"instance_id": "i"}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_does_not_fit_is_refused(changes: dict[str, Any], code: Code) -> None:
    host = mixed_group()
    assert host.ask(classic_join("b", **changes)) is code
    assert sorted(host.consumer().subscribers) == ["a", "c"]


def test_a_member_id_belongs_to_one_protocol() -> None:
    host = mixed_group()
    assert host.ask(classic_join("c")) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(consumer_beat("a", 2)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(beat("c", 2)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(leave(("c", None))).codes == (Code.UNKNOWN_MEMBER_ID,)


def test_a_full_group_lets_its_members_rejoin_and_no_other_join() -> None:
    host = mixed_group()
    host.machine.config = GroupConfig(consumer_max_size=2)
    assert host.ask(classic_join("b")) is Code.GROUP_MAX_SIZE_REACHED
    assert host.ask(classic_join("a")).generation == 2


def test_a_classic_member_has_the_session_timeout_that_it_asked_for() -> None:
    """A classic member has the session timeout that it asked for also after a move."""
    for host in (mixed_group(), mixed_group().restarted()):
        host.wait(9_999)
        assert "a" in host.consumer().subscribers
        host.wait(1)
        assert "a" not in host.consumer().subscribers


def test_a_member_that_never_rejoins_is_out_after_its_rebalance_timeout() -> None:
    host = mixed_group()
    host.send(consumer_beat("d", 0))
    for _ in range(12):
        assert host.ask(beat("a", 2)) is Code.REBALANCE_IN_PROGRESS
        host.send(consumer_beat("d", 3))
        host.wait(5_000)
    assert host.ask(beat("a", 2)) is Code.UNKNOWN_MEMBER_ID


def test_a_member_that_joins_and_never_syncs_is_out_after_its_rebalance_timeout() -> None:
    host = mixed_group()
    host.send(classic_join("a"))
    for _ in range(12):
        assert host.ask(beat("a", 2)) == HeartbeatSeen()
        host.wait(5_000)
        host.send(consumer_beat("c", 2))
    assert host.ask(beat("a", 2)) is Code.UNKNOWN_MEMBER_ID


def test_to_a_classic_member_its_epoch_is_a_generation_in_any_version_of_a_commit() -> None:
    host = mixed_group()
    assert host.ask(commit(OFFSET, member_id="a", generation=2, knows_epochs=False)).codes == (Code.NONE,)
    assert host.ask(commit(OFFSET, member_id="a", generation=1)) is Code.ILLEGAL_GENERATION
    assert host.ask(commit(OFFSET, member_id="c", generation=1)) is Code.STALE_MEMBER_EPOCH
    assert host.ask(commit(OFFSET, member_id="c", generation=2, knows_epochs=False)) is Code.UNSUPPORTED_VERSION
    assert host.ask(fetch(("orders", 0), member_id="a", member_epoch=1)) is Code.ILLEGAL_GENERATION


def test_it_may_commit_until_it_rejoins() -> None:
    host = mixed_group()
    host.send(consumer_beat("d", 0))
    assert host.ask(commit(OFFSET, member_id="a", generation=2)).codes == (Code.NONE,)
    host.send(classic_join("a"))
    assert host.ask(commit(OFFSET, member_id="a", generation=2)) is Code.ILLEGAL_GENERATION


def test_a_member_that_leaves_makes_room() -> None:
    host = mixed_group()
    assert host.ask(leave(("a", None), ("a", None))).codes == (Code.NONE, Code.UNKNOWN_MEMBER_ID)
    assert host.ask(consumer_beat("c", 2)).assignment == owned(0, 1, 2, 3)


def test_a_description_says_which_protocol_a_member_speaks() -> None:
    host = mixed_group()
    described = host.ask(DescribeConsumerGroup(GROUP))
    assert {member.member_id: member.is_classic for member in described.members} == {"a": True, "c": False}
    assert host.ask(DescribeGroup(GROUP)) is Code.GROUP_ID_NOT_FOUND
    [listed] = host.machine.list_groups()
    assert (listed.type, listed.protocol_type) == ("consumer", "consumer")


def test_a_topic_that_grows_is_given_to_classic_members_too() -> None:
    host = mixed_group()
    grown = {**TOPICS, "orders": TOPICS["orders"]._replace(partition_count=6)}
    host.send(consumer_beat("c", 2, topics=grown))
    assert host.ask(beat("a", 2)) is Code.REBALANCE_IN_PROGRESS
    joined = host.ask(classic_join("a", (2, 3), topics=grown))
    assert len(partitions(host.ask(sync("a", joined.generation)))) == 3
