"""Heartbeats of KIP-848 members."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import ConsumerBeatSeen, TopicIdPartitions
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import MemberState, by_topic
from tests.unit.core.machines.groups.host import TOPICS, Host, beat, consumer_beat, join, topic_id

ORDERS = topic_id(1)


def orders(*numbers: int) -> tuple[TopicIdPartitions, ...]:
    return (TopicIdPartitions(ORDERS, numbers),) if numbers else ()


def test_the_first_member_gets_everything_at_epoch_one() -> None:
    seen = Host().ask(consumer_beat("a", 0))
    assert seen == ConsumerBeatSeen("a", 1, 5_000, orders(0, 1, 2, 3))


def test_a_heartbeat_without_news_writes_nothing_and_brings_nothing() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    records = len(host.log)
    assert host.ask(consumer_beat("a", 1)) == ConsumerBeatSeen("a", 1, 5_000, None)
    assert len(host.log) == records


def test_a_partition_goes_to_the_newcomer_only_when_the_old_owner_has_let_go() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    newcomer = host.ask(consumer_beat("b", 0))
    assert (newcomer.member_epoch, newcomer.assignment) == (2, ())
    told = host.ask(consumer_beat("a", 1))
    assert (told.member_epoch, told.assignment) == (1, orders(0, 1))
    assert host.consumer().current("a").state is MemberState.UNREVOKED_PARTITIONS
    assert host.ask(consumer_beat("b", 2)).assignment is None
    still = host.ask(consumer_beat("a", 1, owned=orders(0, 1, 2, 3)))
    assert still.member_epoch == 1
    done = host.ask(consumer_beat("a", 1, owned=orders(0, 1)))
    assert done.member_epoch == 2
    assert host.ask(consumer_beat("b", 2)).assignment == orders(2, 3)
    assert host.consumer().state == "Stable"


def test_a_member_that_does_not_let_go_in_time_is_out() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0, rebalance_timeout_ms=30_000))
    host.ask(consumer_beat("b", 0))
    host.ask(consumer_beat("a", 1))
    for _ in range(6):
        host.wait(5_000)
        host.ask(consumer_beat("a", 1))
        host.ask(consumer_beat("b", 2))
    assert list(host.consumer().subscribers) == ["b"]
    assert host.ask(consumer_beat("a", 1)) is Code.UNKNOWN_MEMBER_ID
    assert by_topic(host.consumer().current("b").assigned) == orders(0, 1, 2, 3)


def test_a_silent_member_is_out_after_the_session_timeout() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    host.wait(44_999)
    assert host.ask(consumer_beat("a", 1)).member_epoch == 1
    host.wait(45_000)
    assert host.consumer().state == "Empty"


def test_a_member_that_leaves_makes_room_at_the_next_heartbeat() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    host.ask(consumer_beat("b", 0))
    assert host.ask(consumer_beat("a", -1)) == ConsumerBeatSeen("a", -1, 0, None)
    assert host.ask(consumer_beat("b", 2)).assignment == orders(0, 1, 2, 3)


def test_a_topic_that_grows_appears_or_vanishes_makes_a_new_assignment() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0, subscribed_topics=("orders", "later")))
    grown: dict[str, Any] = {**TOPICS, "orders": TopicShape(ORDERS, 5)}
    assert host.ask(consumer_beat("a", 1, topics=grown)).assignment == orders(0, 1, 2, 3, 4)
    appeared = {**grown, "later": TopicShape(topic_id(9), 1)}
    seen = host.ask(consumer_beat("a", 2, topics=appeared))
    assert seen.assignment == (*orders(0, 1, 2, 3, 4), TopicIdPartitions(topic_id(9), (0,)))
    vanished = {"later": appeared["later"]}
    seen = host.ask(consumer_beat("a", 3, topics=vanished))
    assert seen.assignment == (TopicIdPartitions(topic_id(9), (0,)),)
    assert seen.member_epoch == 3  # until it says that it has given the rest up
    owned = (TopicIdPartitions(topic_id(9), (0,)),)
    assert host.ask(consumer_beat("a", 3, topics=vanished, owned=owned)).member_epoch == 4


def test_a_topic_made_anew_under_its_old_name_is_another_topic() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    anew = {"orders": TopicShape(topic_id(7), 4)}
    host.ask(consumer_beat("a", 1, topics=anew))
    seen = host.ask(consumer_beat("a", 1, topics=anew, owned=()))
    assert seen.assignment == (TopicIdPartitions(topic_id(7), (0, 1, 2, 3)),)


def test_a_member_may_subscribe_by_regex_and_change_its_mind() -> None:
    host = Host()
    seen = host.ask(consumer_beat("a", 0, subscribed_topics=None, subscribed_regex="ord.*"))
    assert seen.assignment == orders(0, 1, 2, 3)
    seen = host.ask(consumer_beat("a", 1, subscribed_regex="bil.*", owned=()))
    assert seen.assignment == (TopicIdPartitions(topic_id(2), (0, 1)),)
    seen = host.ask(consumer_beat("a", 2, subscribed_regex="", subscribed_topics=("orders",), owned=()))
    assert seen.assignment == orders(0, 1, 2, 3)


@pytest.mark.parametrize("nothing", [{"subscribed_topics": ()}, {"subscribed_topics": None, "subscribed_regex": ""}])
def test_a_member_may_join_before_there_is_anything_it_wants(nothing: dict[str, Any]) -> None:
    """As a consumer does whose own pattern matches no topic yet."""
    host = Host()
    assert host.ask(consumer_beat("a", 0, **nothing)) == ConsumerBeatSeen("a", 1, 5_000, ())
    assert host.consumer().state == "Stable"
    assert host.ask(consumer_beat("a", 1)) == ConsumerBeatSeen("a", 1, 5_000, None)
    host = host.restarted()
    assert host.ask(consumer_beat("a", 1, subscribed_topics=("orders",))).assignment == orders(0, 1, 2, 3)


def test_a_member_that_wants_nothing_takes_nothing_from_the_others() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    assert host.ask(consumer_beat("b", 0, subscribed_topics=())).assignment == ()
    assert host.ask(consumer_beat("a", 1)) == ConsumerBeatSeen("a", 2, 5_000, None)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_id": ""}, Code.INVALID_REQUEST),
        ({"instance_id": ""}, Code.INVALID_REQUEST),
        ({"rack_id": ""}, Code.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"owned": None}, Code.INVALID_REQUEST),
        ({"owned": orders(1)}, Code.INVALID_REQUEST),
        ({"subscribed_topics": None}, Code.INVALID_REQUEST),
        ({"epoch": -3}, Code.INVALID_REQUEST),
        ({"epoch": -2}, Code.INVALID_REQUEST),
        ({"epoch": 5}, Code.GROUP_ID_NOT_FOUND),
        ({"assignor": "mine"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_regex": "("}, Code.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_requests_that_make_no_sense_are_refused(changes: dict[str, Any], code: Code) -> None:
    member_id, epoch = changes.pop("member_id", "a"), changes.pop("epoch", 0)
    host = Host()
    assert host.ask(consumer_beat(member_id, epoch, **changes)) is code
    assert host.machine.groups == {}


def test_wrong_epochs_are_fenced_but_a_lost_answer_is_not() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    host.ask(consumer_beat("b", 0))
    host.ask(consumer_beat("a", 1, owned=orders(0, 1)))
    assert host.consumer().current("a").epoch == 2
    assert host.ask(consumer_beat("a", 3)) is Code.FENCED_MEMBER_EPOCH
    assert host.ask(consumer_beat("a", 1, owned=orders(0, 1))).member_epoch == 2  # it did not get our answer
    assert host.ask(consumer_beat("a", 1, owned=orders(0, 1, 2))) is Code.FENCED_MEMBER_EPOCH
    assert host.ask(consumer_beat("a", 1)) is Code.FENCED_MEMBER_EPOCH
    assert host.ask(consumer_beat("x", 1)) is Code.UNKNOWN_MEMBER_ID


def test_a_join_sent_twice_gets_the_same_answer_twice() -> None:
    host = Host()
    first = host.ask(consumer_beat("a", 0))
    assert host.ask(consumer_beat("a", 0)) == first


def test_a_known_member_may_begin_anew_with_nothing() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    host.ask(consumer_beat("b", 0))
    host.ask(consumer_beat("a", 1, owned=orders(0, 1)))
    seen = host.ask(consumer_beat("a", 0))
    assert (seen.member_epoch, seen.assignment) == (2, orders(0, 1))


def test_a_late_copy_of_a_join_gives_nothing_up_for_its_member() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    host.ask(consumer_beat("b", 0))

    host.ask(consumer_beat("a", 0))  # its member has long had an answer, reads all four and knows nothing of this

    assert host.ask(consumer_beat("b", 2)).assignment is None
    assert host.ask(consumer_beat("a", 1)) is Code.FENCED_MEMBER_EPOCH  # now it drops all, and joins again
    assert host.ask(consumer_beat("a", 0)).assignment == orders(0, 1)
    assert host.ask(consumer_beat("b", 2)).assignment is None
    host.ask(consumer_beat("a", 2))  # who knows the new epoch has heard what it has
    assert host.ask(consumer_beat("b", 2)).assignment == orders(2, 3)


def test_who_joins_again_and_is_not_heard_of_is_out_and_makes_room() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0, rebalance_timeout_ms=1_000))
    host.ask(consumer_beat("b", 0))
    host.ask(consumer_beat("a", 0, rebalance_timeout_ms=1_000))

    host.wait(1_000)

    assert host.ask(consumer_beat("b", 2)).assignment == orders(0, 1, 2, 3)


def test_a_full_group_takes_nobody_in() -> None:
    host = Host(GroupConfig(consumer_max_size=1))
    host.ask(consumer_beat("a", 0))
    assert host.ask(consumer_beat("b", 0)) is Code.GROUP_MAX_SIZE_REACHED
    assert host.ask(consumer_beat("a", 1)).member_epoch == 1


def test_a_static_member_leaves_for_a_while_and_finds_its_partitions_under_a_new_id() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0, instance_id="i1"))
    host.ask(consumer_beat("b", 0, instance_id="i2"))
    host.ask(consumer_beat("a", 1, instance_id="i1", owned=orders(0, 1)))
    host.ask(consumer_beat("b", 2, instance_id="i2"))
    epoch = host.consumer().epoch
    assert host.ask(consumer_beat("b2", 0, instance_id="i2")) is Code.UNRELEASED_INSTANCE_ID
    assert host.ask(consumer_beat("b", -2, instance_id="i2")).member_epoch == -2
    assert host.ask(consumer_beat("a", 2, instance_id="i1")).assignment is None
    back = host.ask(consumer_beat("b2", 0, instance_id="i2"))
    assert (back.member_epoch, back.assignment) == (epoch, orders(2, 3))
    assert host.consumer().epoch == epoch, "nothing else noticed"
    assert host.ask(consumer_beat("b", epoch, instance_id="i2")) is Code.FENCED_INSTANCE_ID
    assert host.ask(consumer_beat("b", epoch)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(consumer_beat("c", epoch, instance_id="i3")) is Code.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_loses_its_place() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0, instance_id="i1"))
    host.ask(consumer_beat("a", -2, instance_id="i1"))
    host.wait(45_000)
    assert host.consumer().state == "Empty"


def test_a_static_member_that_returns_with_another_wish_gets_it() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0, instance_id="i1"))
    host.ask(consumer_beat("a", -2, instance_id="i1"))
    back = host.ask(consumer_beat("a2", 0, instance_id="i1", subscribed_topics=("bills",)))
    assert back.assignment == (TopicIdPartitions(topic_id(2), (0, 1)),)
    assert list(host.consumer().topics) == ["bills"]


def test_the_assignor_members_ask_for_is_used() -> None:
    host = Host()
    both = {"assignor": "range", "subscribed_topics": ("orders", "bills")}
    host.ask(consumer_beat("a", 0, **both))
    host.ask(consumer_beat("b", 0, **both))
    target = host.consumer().targets
    assert target["a"] == {(ORDERS, 0), (ORDERS, 1), (topic_id(2), 0)}
    assert target["b"] == {(ORDERS, 2), (ORDERS, 3), (topic_id(2), 1)}


def test_an_empty_classic_group_becomes_a_consumer_group_and_back() -> None:
    host = Host()
    host.stable_group("x")
    assert host.ask(consumer_beat("a", 0)) is Code.GROUP_ID_NOT_FOUND
    host.wait(10_000)
    assert host.ask(consumer_beat("a", 0)).member_epoch == 1
    assert host.ask(join("")) is Code.INCONSISTENT_GROUP_PROTOCOL
    assert host.ask(beat("a", 1)) is Code.UNKNOWN_MEMBER_ID
    assert host.restarted().consumer().epoch == 1
    host.ask(consumer_beat("a", -1))
    generation = host.answer(host.joins("y")).generation
    assert generation == 1
    assert host.restarted().machine.groups == {}, "a group that has not come to rest is not in the log"


def test_members_read_back_from_the_log_have_one_session_to_show_themselves() -> None:
    host = Host()
    host.ask(consumer_beat("a", 0))
    host.ask(consumer_beat("b", 0, rebalance_timeout_ms=20_000))
    host.ask(consumer_beat("a", 1))
    host.wait(40_000)
    host = host.restarted()
    assert host.consumer().current("a").state is MemberState.UNREVOKED_PARTITIONS
    host.wait(44_999)
    assert host.ask(consumer_beat("a", 1, owned=orders(0, 1))).member_epoch == 2
    host.wait(1)
    assert list(host.consumer().subscribers) == ["a"]
