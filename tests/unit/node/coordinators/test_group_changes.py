"""What the trace is told of groups: who joins, who leaves and why, and which state a group is in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

from chronik.core.machines.groups.commands import Leave, Leaver
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.node.coordinators.group_changes import GroupChanges
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.events import GroupChanged, GroupJoined, GroupLeft
from chronik.trace.recorder import Recorder
from tests.unit.core.machines.groups.host import GROUP, Host, assignment, consumer_beat, join, subscription, sync
from tests.unit.node.fakes import NODE_ID, NOW_MS, FakeClock

E = TypeVar("E")


class TracedHost(Host):
    """A machine whose changes are told, as a coordinator does it."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.clock = FakeClock()
        self.recorder = Recorder(NODE_ID, self.clock)
        if is_on:
            self.recorder.switch(is_all=True, exceptions=frozenset())
        self.changes = GroupChanges(self.recorder, SteadyTime(self.clock))
        super().__init__()

    def send(self, command: Any) -> int:
        self.changes.asked(command)
        try:
            return super().send(command)
        finally:
            self.changes.answered()

    def _take(self, decision: Any) -> None:
        super()._take(decision)
        self.changes.applied(self.machine, decision.facts)

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.recorder.read().events if isinstance(event, kind)]


def test_a_classic_group_from_its_first_member_to_its_last() -> None:
    host = TracedHost()
    generation = host.stable_group("a", "b")

    host.send(Leave(GROUP, (Leaver("b", None),)))
    host.send(join("a"))
    host.send(Leave(GROUP, (Leaver("a", None),)))

    states = [(event.state_before, event.state) for event in host.told(GroupChanged)]
    assert states[0][0] == "Empty"
    assert all(before[1] == after[0] for before, after in pairwise(states))
    assert ("CompletingRebalance", "Stable") in states
    assert states[-1][1] == "Empty"
    assert generation in [event.generation for event in host.told(GroupChanged)]
    assert [(event.member_id, event.reason) for event in host.told(GroupLeft)] == [("b", "left"), ("a", "left")]
    assert {event.member_id for event in host.told(GroupJoined)} == {"a", "b"}


def test_a_group_that_is_upgraded_and_downgraded_keeps_its_classic_members() -> None:
    host = TracedHost()
    protocols = (("range", subscription("orders")),)
    host.joins("a", protocols=protocols)
    host.send(sync("a", 1, (("a", assignment(("orders", 0))),)))

    host.send(consumer_beat("c", 0))
    host.send(consumer_beat("c", -1))

    assert [(event.member_id, event.reason) for event in host.told(GroupLeft)] == [("c", "left")]
    states = [(event.state, event.generation, event.members) for event in host.told(GroupChanged)]
    assert states[-3:] == [("Stable", 1, 1), ("Reconciling", 2, 2), ("PreparingRebalance", 2, 1)]


def test_a_member_is_told_with_its_client_and_host_as_everywhere_else() -> None:
    host = TracedHost()
    host.joins("a")

    joined = host.told(GroupJoined)[-1]
    assert (joined.group, joined.member_id, joined.client_id, joined.host) == (GROUP, "a", "client", "127.0.0.1")
    assert host.recorder.steps is not None
    assert host.recorder.steps.readers.group_of("client", "127.0.0.1", 0) == GROUP


def test_asking_for_a_member_id_is_no_joining_yet() -> None:
    host = TracedHost()
    host.send(join("", new_member_id="a"))

    assert host.told(GroupJoined) == []


def test_a_member_that_falls_silent_has_expired() -> None:
    host = TracedHost()
    host.stable_group("a")

    host.wait(600_000)

    assert [(event.member_id, event.reason) for event in host.told(GroupLeft)] == [("a", "expired")]


def test_a_static_member_that_comes_back_replaces_itself() -> None:
    host = TracedHost()
    host.stable_group("a", instance_id="one")

    host.send(join("", new_member_id="a2", instance_id="one"))

    assert [(event.member_id, event.reason) for event in host.told(GroupLeft)] == [("a", "replaced")]


def test_a_group_of_kip_848() -> None:
    host = TracedHost()
    host.ask(consumer_beat("a", 0, client_id="app", client_host="/10.0.0.7"))
    host.ask(consumer_beat("a", -1))

    assert [(event.member_id, event.client_id) for event in host.told(GroupJoined)] == [("a", "app")]
    assert [(event.member_id, event.reason, event.host) for event in host.told(GroupLeft)] == [
        ("a", "left", "10.0.0.7")
    ]
    assert [event.state for event in host.told(GroupChanged)][-1] == "Empty"


def test_a_heartbeat_that_changes_nothing_tells_nothing() -> None:
    host = TracedHost()
    seen = host.ask(consumer_beat("a", 0))
    before = len(host.recorder.read().events)

    host.ask(consumer_beat("a", seen.member_epoch))

    assert len(host.recorder.read().events) == before


def test_what_was_there_before_the_trace_began_is_not_told_as_new() -> None:
    host = TracedHost(is_on=False)
    host.stable_group("a")
    host.recorder.switch(is_all=True, exceptions=frozenset())
    host.changes.begin([host.machine])

    host.send(Leave(GROUP, (Leaver("a", None),)))

    assert [event.state_before for event in host.told(GroupChanged)] == ["Stable"]
    assert [event.member_id for event in host.told(GroupLeft)] == ["a"]


def test_switched_off_nothing_is_told_or_kept() -> None:
    host = TracedHost(is_on=False)
    host.stable_group("a")

    assert host.recorder.read().events == []
    assert host.changes._known == {}


def test_how_long_a_classic_group_has_been_as_it_is_also_after_the_clock_was_set() -> None:
    host = TracedHost(is_on=False)
    host.now_ms, host.wall_ahead_ms = NOW_MS, 3_600_000
    host.clock.wall_ms += 3_600_000
    host.stable_group("a")
    host.clock.advance(700)

    assert host.changes.state_ms(host.classic()) == 700


def test_how_long_a_group_has_been_as_it_is() -> None:
    host = TracedHost(is_on=False)
    host.ask(consumer_beat("a", 0))
    host.clock.advance(700)

    assert host.changes.state_ms(host.consumer()) == 700
    assert host.changes.state_ms(ConsumerGroup("never seen")) == -1
    host.changes.lost(host.machine)
    assert host.changes.state_ms(host.consumer()) == -1
