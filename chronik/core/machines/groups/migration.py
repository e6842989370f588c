"""Groups pass from the classic to the consumer protocol and back while they have members (KIP-848, online migration).

    ClassicGroup --- a member of the consumer protocol joins ---> ConsumerGroup, its old members still speak classic
         ^                                                             |
         +------- the last member of the consumer protocol is gone ---+

Whatever a member may still use when its group changes stays with it until it has joined again, so that no partition
has two owners on the way. One decision takes the old group's records back and writes the new one's, in one batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from chronik.core.machines.groups.classic_step import ClassicStep
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import (
    NONE,
    ClassicMetadata,
    ConsumerGroup,
    Current,
    MemberState,
    Partitions,
    Subscriber,
)
from chronik.core.machines.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    NamedPartition,
    named,
    read_assignment,
    read_subscription,
    write_assignment,
)
from chronik.core.machines.groups.consumer_step import removal
from chronik.core.machines.groups.facts import (
    ClassicGroupForgotten,
    CurrentSet,
    GroupEpochSet,
    GroupFact,
    GroupTopicsSet,
    SubscriberSet,
    TargetEpochSet,
    TargetSet,
    TimerSet,
)
from chronik.core.machines.groups.offset_desk import forget_group
from chronik.core.machines.groups.subscriptions import subscribed_topics, wants_after
from chronik.core.machines.groups.timers import TimerKey, TimerKind
from chronik.core.machines.machine import Decision, Reply

COMMON_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")

# Upwards


def check_upgrade(group: ClassicGroup, config: GroupConfig) -> None:
    """May a member of the consumer protocol join this group?"""
    if not config.can_upgrade:
        raise _not_upgraded(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > config.consumer_max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size")


def _not_upgraded(group: ClassicGroup, why: str) -> Refused:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return Refused(Code.GROUP_ID_NOT_FOUND, message)


def upgrade(
    group: ClassicGroup, topics: Mapping[str, TopicShape], now_ms: int
) -> tuple[ConsumerGroup, Decision[GroupFact]]:
    """The classic group as a consumer group of the same members, at the epoch that was its generation. A member that
    waits for a rebalance to end joins again: the rebalance goes on in the new group."""
    decision = Decision[GroupFact]([ClassicGroupForgotten(group.group_id)])
    upgraded = ConsumerGroup(group.group_id)
    upgraded.epoch = upgraded.target_epoch = group.generation
    for member in group.members.values():
        subscriber, held = _upgraded_member(group, member, topics)
        free = frozenset(pair for pair in held if pair not in upgraded.owners)  # a leader may give one twice
        upgraded.set_subscriber(member.member_id, subscriber)
        upgraded.set_target(member.member_id, free)
        upgraded.set_current(
            member.member_id, Current(group.generation, group.generation, MemberState.STABLE, free, NONE)
        )
        for ticket in (member.join_ticket, member.sync_ticket):
            if ticket is not None:
                decision.replies.append(Reply(ticket, Refused(Code.REBALANCE_IN_PROGRESS)))
    decision.facts += _facts_of(upgraded)
    for member in group.members.values():
        key = TimerKey(TimerKind.SESSION, group.group_id, member.member_id)
        decision.facts.append(TimerSet(key, now_ms + member.session_timeout_ms))
    return upgraded, decision


def _upgraded_member(
    group: ClassicGroup, member: ClassicMember, topics: Mapping[str, TopicShape]
) -> tuple[Subscriber, Partitions]:
    try:
        subscription = read_subscription(member.protocols[0][1])
        assigned = read_assignment(member.assignment)
    except Corrupt as problem:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed") from problem
    # What an assignor of the client's own keeps there would be lost. Those that every client has keep nothing there;
    # librdkafka as leader copies something there all the same, for which Kafka refuses the upgrade.
    if assigned.user_data and group.protocol not in COMMON_ASSIGNORS:
        why = "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
        raise _not_upgraded(group, f"{why} assignor before re-attempting the upgrade")
    subscriber = Subscriber(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(frozenset(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )
    return subscriber, identified(assigned.partitions, topics)


def identified(partitions: Collection[NamedPartition], topics: Mapping[str, TopicShape]) -> Partitions:
    """Partitions by the ids of their topics; those of topics that are gone belong to no member."""
    return frozenset((topics[topic].topic_id, number) for topic, number in partitions if topic in topics)


def _facts_of(group: ConsumerGroup) -> list[GroupFact]:
    id = group.group_id
    facts: list[GroupFact] = [SubscriberSet(id, member_id, one) for member_id, one in group.subscribers.items()]
    facts.append(GroupEpochSet(id, group.epoch))
    facts += [TargetSet(id, member_id, one) for member_id, one in group.targets.items()]
    facts.append(TargetEpochSet(id, group.target_epoch))
    facts += [CurrentSet(id, member_id, one) for member_id, one in group.currents.items()]
    return facts


# Downwards


def remove(
    group: ConsumerGroup, member_ids: Collection[str], config: GroupConfig, now_ms: int, wall_ms: int | None
) -> Decision[GroupFact]:
    """Members are gone for good. If all that are left speak the classic protocol, they are a classic group again;
    otherwise the next heartbeat of any of them finds a new epoch and makes a new target."""
    if can_downgrade(group, member_ids, config) and len(group.subscribers) > len(member_ids):
        step, facts = downgrade(group, member_ids, config, now_ms, wall_ms)
        step.prepare_rebalance()
        decision = step.decision()
        decision.facts[:0] = facts
        return decision
    facts = [fact for member_id in member_ids for fact in removal(group, member_id)]
    names, regexes = wants_after(group, dict.fromkeys(member_ids))
    topics = subscribed_topics(names, regexes, group.topics)
    if topics != group.topics:
        facts.append(GroupTopicsSet(group.group_id, topics))
    facts.append(GroupEpochSet(group.group_id, group.epoch + 1))
    return Decision(facts)


def can_downgrade(group: ConsumerGroup, without: Collection[str], config: GroupConfig) -> bool:
    """Whether the group can be a classic one when these members are gone."""
    if not config.can_downgrade:
        return False
    left = [member for member_id, member in group.subscribers.items() if member_id not in without]
    return len(left) <= config.max_size and all(member.classic is not None for member in left)


def downgrade(
    group: ConsumerGroup, without: Collection[str], config: GroupConfig, now_ms: int, wall_ms: int | None
) -> tuple[ClassicStep, list[GroupFact]]:
    """The rest of a consumer group as a classic group, which has to rebalance; and the facts that take the consumer
    group back. Its generation is the group's epoch: a member that has not come that far joins again as well."""
    names = {shape.topic_id: name for name, shape in group.topics.items()}
    step = ClassicStep(ClassicGroup(group.group_id), config, now_ms, wall_ms)
    for member_id, subscriber in group.subscribers.items():
        if member_id not in without:
            step.add(_downgraded_member(member_id, subscriber, group.current(member_id), names), CONSUMER_PROTOCOL_TYPE)
    # No member leads. A coordinator that reads this from the log sees by it that the rebalance is yet to come.
    step.enter(
        ClassicState.STABLE if step.group.members else ClassicState.EMPTY,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=step.group.select_protocol() if step.group.members else None,
        leader=None,
    )
    step.save()
    for member in step.group.members.values():
        step.renew_session(member)
    return step, forget_group(group)


def _downgraded_member(
    member_id: str, subscriber: Subscriber, current: Current, names: Mapping[bytes, str]
) -> ClassicMember:
    classic = subscriber.classic
    assert classic is not None
    version = read_subscription(classic.protocols[0][1]).version
    return ClassicMember(
        member_id=member_id,
        instance_id=subscriber.instance_id,
        client_id=subscriber.client_id,
        client_host=subscriber.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=subscriber.rebalance_timeout_ms,
        protocols=classic.protocols,
        # What it may still use, not what it was to have: the group may be upgraded again before it has rejoined.
        assignment=write_assignment(version, named(current.assigned | current.revoking, names)),
    )
