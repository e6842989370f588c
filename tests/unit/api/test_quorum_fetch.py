"""A fetch of the metadata log by another node: answered, or held back until there is news."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from chronik.api import quorum_fetch
from chronik.api.context import RequestContext
from chronik.core.config.topic import TopicConfig
from chronik.core.errors import Code, Refused
from chronik.core.log.log import Log
from chronik.core.ports import Outgoing
from chronik.core.raft.messages import Fetch, LastAnswer, LogPoint, RaftFetchAnswer
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.records.payload import KeyValue, build
from chronik.wire import fetch as wire
from chronik.wire.fetch import NOT_SENT
from chronik.wire.framing import read_header
from tests.unit.api.calls import call_of
from tests.unit.api.fake_context import CLUSTER_ID, caller
from tests.unit.api.quorum_context import FakeQuorum, quorum_context
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.fakes import FakeLoop, fake_deadlines

CONNECTION = 1
ASKED = Fetch(3, 5, LogPoint(5, 2), arrived_ms=1000, followed_ms=900)


class FakeWaiting:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self._deadlines = fake_deadlines(self.loop)
        self.after_ms, self.cancel = self._deadlines.after_ms, self._deadlines.cancel

    @property
    def is_idle(self) -> bool:
        return all(deadline.action is None for _, _, deadline in self._deadlines._heap)


class World:
    """A leader of epoch 5 whose log ends at 2."""

    def __init__(self) -> None:
        self.quorum = FakeQuorum(self.said)
        self.high_watermark = 1
        self.changes: dict[str, Any] = {}
        self.waiting = FakeWaiting()
        self.context: RequestContext = replace(quorum_context(self.quorum), waiting=cast(Any, self.waiting))
        files = cast(Any, MemoryFiles())
        log = Log.open(files, "__cluster_metadata-0", TopicConfig(), 0, was_clean=False)
        self.quorum.replica = QuorumReplica("m", 0, bytes(16), log, node_id=1, synced=lambda: None)
        self.quorum.replica.set_office(5, 1)
        self.answers: list[Sequence[Outgoing] | None] = []
        for _ in range(2):
            self.write()

    def said(self, fetch: Fetch) -> RaftFetchAnswer:
        return replace(RaftFetchAnswer(1, 5, 1, fetch.log_end, high_watermark=self.high_watermark), **self.changes)

    def write(self) -> None:
        self.quorum.replica.append(bytearray(build([KeyValue(None, b"x")], 0)), -1, 0)

    def ask(
        self, *, cluster_id: str = CLUSTER_ID, max_wait_ms: int = 300, high_watermark: int = 1
    ) -> Callable[[], None] | None:
        frame = memoryview(quorum_fetch.frame_of(ASKED, cluster_id, max_wait_ms, high_watermark))
        header = read_header(frame)
        request = wire.parse(frame, header.body, header.version)
        call = call_of(frame, header, caller(header.version, ASKED.sender), self.answers.append)
        return quorum_fetch.begin(call, request, self.context)

    def wake(self) -> None:
        for reader in list(self.quorum.readers):
            reader()

    def heard(self) -> tuple[RaftFetchAnswer, bytes]:
        (pieces,) = self.answers
        assert pieces is not None
        frame = b"".join(bytes(cast(Any, piece)) for piece in pieces)
        answer, records = quorum_fetch.answer_of(memoryview(frame)[4:], ASKED, 1)
        return answer, bytes(records)


@pytest.fixture
def world() -> World:
    made = World()
    made.quorum.last_answers[3] = LastAnswer(1, CONNECTION, 900)
    return made


def test_who_has_everything_waits_for_more(world: World) -> None:
    world.ask()
    assert world.quorum.asked == [ASKED]
    assert world.answers == []

    world.write()
    world.wake()

    answer, records = world.heard()
    assert answer == world.said(ASKED)
    assert records
    assert world.quorum.readers == []
    assert world.waiting.is_idle


def test_a_fetch_that_waits_came_when_it_came(world: World) -> None:
    """A leader that was stopped for a minute has heard of nobody meanwhile."""
    world.ask()
    world.quorum.time_ms += 60_000

    world.wake()
    world.waiting.loop.advance(301)

    assert world.quorum.asked == [ASKED] * 3
    assert world.quorum.last_answers[3].at_ms == 61_000


def test_who_asks_on_another_connection_may_have_asked_long_ago(world: World) -> None:
    """It has not had the last answer: its fetch may have waited in the buffers of a leader that was stopped."""
    world.quorum.last_answers[3] = LastAnswer(1, CONNECTION + 1, 900)

    world.ask()

    assert world.quorum.asked == [replace(ASKED, followed_ms=-1)]


def test_a_watermark_that_moves_is_told_at_once(world: World) -> None:
    world.ask()
    world.wake()
    assert world.answers == []

    world.high_watermark = 2
    world.wake()

    answer, records = world.heard()
    assert answer.high_watermark == 2
    assert records == b""
    assert world.quorum.last_answers[3] == LastAnswer(2, CONNECTION, world.quorum.time_ms)


def test_a_watermark_that_its_own_fetch_moved_is_told_at_once(world: World) -> None:
    world.high_watermark = 2

    world.ask()

    assert world.heard()[0].high_watermark == 2


@pytest.mark.parametrize(("told", "noted"), [(1, {3: 1}), (-1, {3: -1}), (NOT_SENT, {})])
def test_what_the_follower_has_applied_is_noted_when_it_asks(world: World, told: int, noted: dict[int, int]) -> None:
    world.ask(high_watermark=told)

    assert world.quorum.applied.noted == noted


def test_time_that_is_up_is_an_answer(world: World) -> None:
    world.ask(max_wait_ms=300)

    world.waiting.loop.advance(301)

    assert world.heard() == (world.said(ASKED), b"")


@pytest.mark.parametrize(
    "changes",
    [
        {"diverging": LogPoint(3, 1)},
        {"snapshot": LogPoint(4, 50)},
        {"code": Code.NOT_LEADER_OR_FOLLOWER, "leader": None},
        {"code": Code.FENCED_LEADER_EPOCH, "epoch": 9, "leader": 2},
    ],
    ids=["logs that part", "a snapshot instead", "no leader", "another leader"],
)
def test_what_is_no_records_is_said_at_once(world: World, changes: dict[str, Any]) -> None:
    world.changes = changes
    world.write()

    world.ask()

    assert world.heard() == (world.said(ASKED), b"")


def test_another_cluster_gets_nothing(world: World) -> None:
    world.ask(cluster_id="another")

    assert world.quorum.asked == []
    with pytest.raises(Refused) as refused:
        world.heard()
    assert refused.value.code is Code.INCONSISTENT_CLUSTER_ID


def test_whoever_hangs_up_is_not_waited_for(world: World) -> None:
    leave = world.ask()
    assert leave is not None

    leave()
    world.write()
    world.wake()

    assert world.answers == []
    assert world.quorum.readers == []
    assert world.waiting.is_idle


def test_a_node_that_takes_no_part_any_more_hangs_up(world: World) -> None:
    world.ask()
    world.quorum.refusal = Refused(Code.KAFKA_STORAGE_ERROR)

    world.wake()

    assert world.answers == [None]


def test_a_node_that_takes_no_part_any_more_hangs_up_when_time_is_up_too(world: World) -> None:
    world.ask()
    world.quorum.refusal = Refused(Code.KAFKA_STORAGE_ERROR)

    world.waiting.loop.advance(301)

    assert world.answers == [None]
    assert world.quorum.readers == []
