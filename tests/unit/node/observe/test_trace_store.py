"""Where events go: to a partition of the trace topic that this node leads, or nowhere, and then that is told."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.core.records.payload import Record, walk
from chronik.core.replica.replica import Replica
from chronik.node.observe.trace_store import KEPT_MAX, RECORD_BYTES, TraceStore
from chronik.sim.loop import SimLoop
from chronik.trace.events import AnyEvent, EventsLost, GroupJoined, TraceBegan
from chronik.trace.lines import SCHEMA_VERSION, from_lines
from chronik.trace.recorder import EVENTS_A_CHUNK
from tests.unit.node.copies import pass_time
from tests.unit.node.fakes import NODE_ID, FakeChance, House

ROOM = 10**9


class Storing:
    """A house where the trace is stored."""

    def __init__(self) -> None:
        self.house = House(topics={"orders": 1})
        self.recorder = self.house.trace
        self.asked: list[Any] = []
        self.refusing: Refused | None = None
        self.store = TraceStore(
            self.recorder,
            self.house.image,
            self.house.replicas,
            self.ask_controller,
            self.house.clock,
            FakeChance(),
            self.house.metrics,
        )
        self.store.start()

    async def ask_controller(self, command: Any) -> Any:
        self.asked.append(command)
        if self.refusing is not None:
            raise self.refusing
        return self.house.tell(command)

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            self.recorder.add(event(number))

    def create_topic(self) -> None:
        self.house.tell(CreateInternalTopic(TRACE_TOPIC, b"t" * 16))

    def home(self) -> Replica:
        return self.house.replicas.leader(TRACE_TOPIC, 0)

    def records(self) -> list[Record]:
        plan = self.home().log.read(0, ROOM, ROOM, at_least_one=True)
        return [] if plan is None else list(walk(plan.file.read(plan.position, plan.length)))

    def stored(self) -> list[AnyEvent]:
        return [event for record in self.records() for event in from_lines(record.value or b"")]


def event(number: int) -> AnyEvent:
    return GroupJoined(number, NODE_ID, "g", str(number), "app", "10.0.0.7")


def run(test: Callable[[Storing], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """On a simulated loop; no fault may have happened."""

    def wrapped() -> None:
        loop = SimLoop()

        async def through() -> None:
            storing = Storing()
            await test(storing)
            storing.store.stop()
            await storing.house.replicas.sync_rounds.wait_until_idle()
            assert storing.house.metrics.faults == 0

        try:
            loop.run_until_complete(through())
        finally:
            loop.close()

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_the_topic_is_made_when_there_is_something_to_store(storing: Storing) -> None:
    await pass_time(1000)
    assert storing.asked == []

    storing.tell(1)
    await pass_time(500)

    assert [command.name for command in storing.asked] == [TRACE_TOPIC]
    topic = storing.house.image.topic(TRACE_TOPIC)
    assert topic is not None
    assert len(topic.partitions) == 3
    assert storing.stored() == [event(1)]


@run
async def test_a_record_has_the_nodes_id_and_the_schemas_version(storing: Storing) -> None:
    storing.create_topic()
    storing.tell(1, 2)
    await pass_time(300)

    (record,) = storing.records()
    assert record.key == str(NODE_ID).encode()
    assert record.headers == (("schema", str(SCHEMA_VERSION).encode()),)
    assert record.value is not None
    assert record.value.count(b"\n") == 2


@run
async def test_chunks_that_came_together_are_one_record_and_many_are_several(storing: Storing) -> None:
    storing.create_topic()
    storing.tell(*range(EVENTS_A_CHUNK + 10))
    await pass_time(300)
    assert len(storing.records()) == 1

    storing.tell(*range(20 * EVENTS_A_CHUNK))
    await pass_time(300)

    sizes = [len(record.value or b"") for record in storing.records()[1:]]
    assert len(sizes) > 1
    assert max(sizes) <= RECORD_BYTES < sizes[0] + sizes[1]


@run
async def test_all_events_are_stored_once_and_in_order(storing: Storing) -> None:
    storing.create_topic()
    for begin in range(0, 3000, 500):
        storing.tell(*range(begin, begin + 500))
        await pass_time(150)
    await pass_time(300)

    assert storing.stored() == [event(number) for number in range(3000)]


@run
async def test_what_it_cannot_have_made_it_asks_for_again(storing: Storing) -> None:
    storing.refusing = Refused(Code.NOT_CONTROLLER)
    storing.tell(1)
    await pass_time(1000)
    storing.refusing = None
    await pass_time(2000)

    assert 2 <= len(storing.asked) <= 4
    assert storing.stored() == [event(1)]


@run
async def test_the_latest_are_kept_while_nobody_takes_them_and_the_others_counted(storing: Storing) -> None:
    storing.refusing = Refused(Code.NOT_CONTROLLER)
    count = KEPT_MAX + 1000
    storing.tell(*range(count))
    await pass_time(300)

    storing.create_topic()
    await pass_time(300)

    lost, *kept = storing.stored()
    assert isinstance(lost, EventsLost)
    assert lost.count == count - len(kept)
    assert len(kept) > KEPT_MAX - 1000
    assert kept[-1] == event(count - 1)
    storing.tell(count)
    await pass_time(300)
    assert storing.stored()[-1] == event(count)
    assert sum(isinstance(one, EventsLost) for one in storing.stored()) == 1


@run
async def test_a_full_disk_only_puts_it_off(storing: Storing) -> None:
    storing.create_topic()
    storing.tell(1)
    await pass_time(300)
    storing.house.files.failures["write"] = OSError(errno.ENOSPC, "No space left on device")
    storing.tell(2)
    await pass_time(300)
    assert storing.stored() == [event(1)]
    storing.house.files.failures.clear()
    await pass_time(300)

    assert storing.stored() == [event(1), event(2)]


@run
async def test_what_there_is_when_it_stops_is_stored(
    storing: Storing,
) -> None:
    """What there is when it stops is stored and what comes until it goes on leaves a hole."""
    storing.create_topic()
    storing.tell(1)
    storing.store.stop()
    storing.tell(2)
    storing.recorder.seal()
    storing.store.start()
    storing.tell(3)
    await pass_time(300)

    first, hole, last = storing.stored()
    assert (first, last) == (event(1), event(3))
    assert isinstance(hole, EventsLost)
    assert hole.count == 1


@run
async def test_what_nobody_took_until_it_stopped_leaves_a_hole_when_it_goes_on(storing: Storing) -> None:
    storing.tell(1, 2)
    storing.store.stop()
    storing.store.start()
    storing.create_topic()
    storing.tell(3)
    await pass_time(300)

    hole, last = storing.stored()
    assert isinstance(hole, EventsLost)
    assert (hole.count, last) == (2, event(3))


@run
async def test_where_nothing_was_told_while_it_was_off_there_is_no_hole(storing: Storing) -> None:
    storing.create_topic()
    storing.tell(1)
    storing.store.stop()
    storing.store.start()
    storing.tell(2)
    await pass_time(300)

    assert storing.stored() == [event(1), event(2)]


@run
async def test_storing_is_not_traced_itself(storing: Storing) -> None:
    storing.create_topic()
    storing.recorder.switch(is_all=True, exceptions=frozenset())
    await pass_time(5000)
    await asyncio.sleep(0)

    assert [type(one) for one in storing.stored()] == [TraceBegan]
