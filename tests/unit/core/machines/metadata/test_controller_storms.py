"""Random days of a cluster: whatever happens in whatever order, what a controller promises stays true."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chronik.core.errors import Refused
from chronik.core.machines.machine import Decision
from chronik.core.machines.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    RegisterBroker,
    ResourceType,
    TopicToDelete,
)
from chronik.core.machines.metadata.controller_commands import (
    AlterPartitions,
    AlterReassignments,
    BrokerGone,
    BrokerHeartbeat,
    ElectLeaders,
    InSyncChange,
    Reassignment,
    UnregisterBroker,
)
from chronik.core.machines.metadata.holdings import Holdings
from chronik.core.machines.metadata.partition import Partition
from chronik.core.machines.metadata.reassignments import moves
from chronik.core.machines.metadata.records import PartitionChangeRecord
from chronik.core.machines.metadata.sessions import ControllerConfig
from tests.unit.core.machines.metadata.machine_asked import Asked, content, topic_id

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b"])
PARTITIONS = st.integers(0, 1)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True).map(tuple)
CONTROLLER = ControllerConfig(own_id=4, broker_session_timeout_ms=9_000, leader_imbalance_check_interval_ms=20_000)


class ControllerStorm(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked(brokers=(), controller=CONTROLLER)
        self.follower = self.asked.replayed()
        self.followed = 0  # so much of the log
        self.created = 0
        self.led: dict[tuple[bytes, int, int], int] = {}  # which node led in which leader epoch
        self.vouched_for: tuple[int, ...] = ()  # the leader itself says, with the command, that these are in sync
        self.wiped = -1  # the broker that says, with the command, that its disk is empty
        self.unclean_now = False  # the command asks for unclean elections itself
        for broker_id in (1, 2, 3):
            self.register(broker_id, 0, "nothing")
            self.heartbeat(broker_id, True, False, False)
        self.create_by_hand("a", [(1, 2, 3), (2, 3, 1)], 2, False)
        self.create_by_hand("b", [(3, 1), (1, 2)], 1, True)

    # Events

    @rule(broker_id=BROKERS, incarnation=st.integers(0, 2), lost=st.sampled_from(["nothing", "nothing", "tail", "log"]))
    def register(self, broker_id: int, incarnation: int, lost: str) -> None:
        command = RegisterBroker(
            broker_id,
            incarnation_id=bytes([broker_id, incarnation]) * 8,
            host="h",
            port=9,
            is_fenced=True,
            has_lost_its_log=lost == "log",
            has_lost_its_tail=lost == "tail",
        )
        self.wiped = broker_id if lost == "log" else -1
        self.ask(command)
        self.wiped = -1

    @rule(
        broker_id=BROKERS,
        is_caught_up=st.sampled_from([True, True, False]),
        wants_fence=st.sampled_from([False, False, True]),
        wants_shut_down=st.sampled_from([False, False, True]),
    )
    def heartbeat(self, broker_id: int, is_caught_up: bool, wants_fence: bool, wants_shut_down: bool) -> None:
        broker = self.asked.image.brokers.get(broker_id)
        epoch = -1 if broker is None else broker.epoch
        seen = self.asked.image.version if is_caught_up else epoch
        self.ask(BrokerHeartbeat(broker_id, epoch, seen, wants_fence, wants_shut_down))

    @rule()
    def everybody_reports(self) -> None:
        for broker_id in sorted(self.asked.image.brokers):
            self.heartbeat(broker_id, True, False, False)

    @rule(silent=BROKERS)
    def one_falls_silent(self, silent: int) -> None:
        self.asked.now_ms += 6_000
        for broker_id in sorted(self.asked.image.brokers):
            if broker_id != silent:
                self.heartbeat(broker_id, True, False, False)
        self.time_passes(4_000)

    @rule(broker_id=BROKERS)
    def refuses_connections(self, broker_id: int) -> None:
        self.asked.now_ms += 700
        self.ask(BrokerGone(broker_id))

    @rule(name=TOPICS, number=PARTITIONS)
    def everybody_catches_up(self, name: str, number: int) -> None:
        partition = self.asked.image.partition(name, number)
        if partition is not None:
            active = tuple(replica for replica in partition.replicas if self.asked.image.is_active(replica))
            self.alter(name, number, active, 0)

    @rule(elapsed_ms=st.sampled_from([1_000, 5_000, 10_000, 30_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.asked.now_ms += elapsed_ms
        while (deadline_ms := self.asked.machine.next_deadline_ms()) is not None and deadline_ms <= self.asked.now_ms:
            before = content(self.asked.image)
            decision = self.asked.machine.expire(self.asked.now_ms)
            assert content(self.asked.image) == before, "expire changes nothing"
            assert decision.facts, "a deadline that has passed must lead to something"
            self.follow(decision)

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        self.ask(UnregisterBroker(broker_id))

    @rule(
        name=TOPICS,
        replicas=st.lists(REPLICAS, min_size=1, max_size=3),
        in_sync_min=st.integers(1, 3),
        is_unclean=st.sampled_from([False, False, True]),
    )
    def create_by_hand(self, name: str, replicas: list[tuple[int, ...]], in_sync_min: int, is_unclean: bool) -> None:
        settings = (
            ("min.insync.replicas", str(in_sync_min)),
            ("unclean.leader.election.enable", str(is_unclean).lower()),
        )
        same_factor = [one for one in replicas if len(one) == len(replicas[0])]
        self.create(NewTopic(name, self.new_id(), -1, -1, tuple(enumerate(same_factor)), settings))

    @rule(name=TOPICS, count=st.integers(1, 3), factor=st.integers(1, 4))
    def create_placed(self, name: str, count: int, factor: int) -> None:
        self.create(NewTopic(name, self.new_id(), count, factor, (), (("min.insync.replicas", "2"),)))

    @rule(name=TOPICS)
    def delete_and_create(self, name: str) -> None:
        self.ask(DeleteTopics((TopicToDelete(name=name),)))
        self.create_placed(name, 2, 3)

    @rule(name=TOPICS, in_sync_min=st.sampled_from(["1", "2", "3"]))
    def alter_in_sync_min(self, name: str, in_sync_min: str) -> None:
        operations = (("min.insync.replicas", 0, in_sync_min),)
        self.ask(AlterConfigs((ConfigChange(ResourceType.TOPIC, name, operations),)))

    @rule(name=TOPICS, number=PARTITIONS, members=REPLICAS, stale=st.sampled_from([0, 0, 0, 1, -1]))
    def leader_asks(self, name: str, number: int, members: tuple[int, ...], stale: int) -> None:
        self.alter(name, number, members, stale)

    def alter(self, name: str, number: int, members: tuple[int, ...], stale: int) -> None:
        partition = self.asked.image.partition(name, number)
        if partition is None or partition.leader not in self.asked.image.brokers:
            return
        leader = partition.leader
        in_sync = tuple(member for member in dict.fromkeys((leader, *members)) if member in partition.replicas)
        wanted = InSyncChange(
            self.asked.image.topics[name].id,
            number,
            partition.leader_epoch,
            partition.partition_epoch + stale,
            tuple((member, -1) for member in in_sync),
        )
        self.vouched_for = in_sync
        self.ask(AlterPartitions(leader, self.asked.image.brokers[leader].epoch, (wanted, wanted)))
        self.vouched_for = ()

    @rule(partitions=st.none() | st.lists(st.tuples(TOPICS, PARTITIONS), max_size=3).map(tuple), unclean=st.booleans())
    def elect(self, partitions: tuple[tuple[str, int], ...] | None, unclean: bool) -> None:
        self.unclean_now = unclean
        self.ask(ElectLeaders(partitions, unclean))
        self.unclean_now = False

    @rule(name=TOPICS, number=PARTITIONS, replicas=st.none() | REPLICAS)
    def reassign(self, name: str, number: int, replicas: tuple[int, ...] | None) -> None:
        self.ask(AlterReassignments((Reassignment(name, number, replicas),)))

    @rule(name=TOPICS, number=PARTITIONS, replicas=REPLICAS)
    def move_and_catch_up(self, name: str, number: int, replicas: tuple[int, ...]) -> None:
        self.reassign(name, number, replicas)
        self.everybody_catches_up(name, number)

    # What is checked at each step

    def new_id(self) -> bytes:
        self.created += 1
        return topic_id(self.created)

    def create(self, wanted: NewTopic) -> None:
        self.ask(CreateTopics((wanted,)))

    def ask(self, command: Any) -> None:
        before = content(self.asked.image)
        try:
            decision = self.asked.machine.decide(1, command, self.asked.now_ms)
        except Refused:
            decision = Decision()
        assert content(self.asked.image) == before, "decide changes nothing"
        self.follow(decision)

    def follow(self, decision: Decision) -> None:
        changes = [fact for fact in decision.facts if isinstance(fact, PartitionChangeRecord)]
        names = [(change.topic_id, change.partition_id) for change in changes]
        assert len(frozenset(names)) == len(names), "a decision changes a partition once: it saw only one state of it"
        old = {name: self.partition(*name) for name in names}
        self.asked.take(decision.facts)
        for name in names:
            self.check_change(name[0], old[name], self.partition(*name))

    def partition(self, topic: bytes, number: int) -> Partition:
        found = self.asked.image.topic_by_id(topic)
        assert found is not None
        return found.partitions[number]

    def check_change(self, topic: bytes, old: Partition, new: Partition) -> None:
        assert new.partition_epoch == old.partition_epoch + 1
        assert new.leader_epoch in (old.leader_epoch, old.leader_epoch + 1)
        found = self.asked.image.topic_by_id(topic)
        assert found is not None
        may_be_unclean = self.unclean_now or self.asked.image.topic_config(found.name).unclean_leader_election_enable
        if new.leader != old.leader:
            assert new.leader_epoch == old.leader_epoch + 1
            if new.leader >= 0 and not may_be_unclean:
                has_everything = (*old.in_sync, *old.eligible, *self.vouched_for)
                # Who was in sync beside others that are eligible has lost its tail only.
                wiped = tuple(replica for replica in old.lost if not (old.eligible and replica in old.in_sync))
                is_all_lost = all(replica in (*wiped, self.wiped) for replica in new.replicas)
                assert is_all_lost or new.leader not in (*wiped, self.wiped), "who has nothing does not lead"
                assert new.leader in has_everything
        if old.is_moving and not new.is_moving and any(replica in new.replicas for replica in old.adding):
            assert all(replica in new.in_sync for replica in new.replicas), "a move is done when all are in sync"
        if any(replica not in new.replicas for replica in old.replicas):
            assert new.leader_epoch == old.leader_epoch + 1, "who is no replica any longer is fenced by the epoch"

    @invariant()
    def every_partition_is_in_order(self) -> None:
        image = self.asked.image
        for topic in image.topics.values():
            factors = image.topic_config(topic.name)
            for number, one in enumerate(topic.partitions):
                assert one.replicas
                assert len(frozenset(one.replicas)) == len(one.replicas)
                assert one.in_sync
                assert len(frozenset(one.in_sync)) == len(one.in_sync)
                assert all(member in one.replicas for member in (*one.in_sync, *one.eligible))
                assert not frozenset(one.in_sync) & frozenset(one.eligible)
                assert all(member in one.replicas for member in (*one.adding, *one.removing))
                if one.has_leader:
                    assert one.leader in one.in_sync
                    assert all(image.is_active(member) for member in one.in_sync)
                else:
                    has_all = (*one.in_sync, *one.eligible)
                    assert not any(image.is_active(member) for member in has_all if member not in one.lost)
                    assert all(member in one.replicas for member in one.lost)
                    assert len(one.lost) < len(one.replicas), "there is somebody to wait for"
                assert not (one.lost and one.has_leader)
                is_enough = len(one.in_sync) >= min(factors.min_insync_replicas, len(one.replicas))
                if is_enough and one.in_sync[0] not in one.lost:
                    assert not one.eligible
                known = self.led.setdefault((topic.id, number, one.leader_epoch), one.leader)
                assert known == one.leader, "one leader an epoch"

    @invariant()
    def no_move_is_left_when_it_is_done(self) -> None:
        for move in moves(self.asked.image):
            partition = self.asked.image.partition(move.topic, move.partition)
            assert partition is not None
            stay = [replica for replica in move.replicas if replica not in move.removing]
            assert not partition.has_leader or any(replica not in partition.in_sync for replica in stay)

    @invariant()
    def the_holdings_are_what_the_partitions_say(self) -> None:
        counted = Holdings()
        for topic in self.asked.image.topics.values():
            for partition in topic.partitions:
                counted.add(topic.id, partition)
        assert self.asked.image.holdings.content() == counted.content()

    @invariant()
    def the_log_gives_the_same_image(self) -> None:
        for record in self.asked.log[self.followed :]:
            self.follower.replay(record)
        self.followed = len(self.asked.log)
        assert content(self.follower.image) == content(self.asked.image)


ControllerStorm.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestControllerStorm = ControllerStorm.TestCase
