"""A machine over its log: decide, append, apply; the answers when that is safe."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.machine import Decision, LogMarker, LogRecord, Reply
from chronik.core.records.batch import read_header
from chronik.core.records.control import Marker
from chronik.core.records.payload import KeyValue, build
from chronik.core.replica.replica import Replica
from chronik.node.machine_host import RETRY_MS, MachineHost, Transactional, entries_of, records_of
from chronik.node.runtime.steady_time import SteadyTime
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.fakes import NOW_MS, House

EIO = OSError(errno.EIO, "Input/output error")
ENOSPC = OSError(errno.ENOSPC, "No space left on device")
TALLY = {"tally": 1}
SAFE_WITHIN_MS = 5_000


@dataclass(frozen=True)
class Counted:
    """A word was said once more; a whisper is not written down."""

    word: str
    durable: bool = True


@dataclass
class Say:
    word: str


@dataclass
class Whisper:
    word: str


@dataclass
class Ask:
    word: str


@dataclass
class AnswerAll:
    """All that waits for a bell gets it."""


@dataclass
class SayAll:
    """Many words; whether they need to be one batch."""

    words: list[str]
    is_atomic: bool


@dataclass
class WaitForBell:
    pass


class Tally:
    """Counts words. An alarm set with `alarm_ms` says 'time' when it is due."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.waiting: list[int] = []
        self.alarm_ms: int | None = None
        self.expired = 0
        self.told_ms = (0, 0)

    def decide(self, ticket: int, command: Any, now_ms: int, wall_ms: int) -> Decision:
        self.told_ms = (now_ms, wall_ms)
        match command:
            case Say(word):
                if not word:
                    raise Refused(Code.INVALID_REQUEST, "no word")
                return Decision([Counted(word)], [Reply(ticket, self.counts.get(word, 0) + 1)])
            case SayAll(words, is_atomic):
                return Decision([Counted(word) for word in words], [Reply(ticket, len(words))], is_atomic)
            case Whisper(word):
                return Decision([Counted(word, durable=False)], [Reply(ticket, "heard")])
            case Ask(word):
                return Decision([], [Reply(ticket, self.counts.get(word, 0))])
            case WaitForBell():
                self.waiting.append(ticket)  # a test's shortcut: a real machine would make this a volatile fact
                return Decision()
            case AnswerAll():
                return Decision([Counted("bell")], [Reply(t, "ding") for t in self.waiting] + [Reply(ticket, "done")])
        raise TypeError(command)

    def expire(self, now_ms: int, wall_ms: int) -> Decision:
        self.told_ms = (now_ms, wall_ms)
        self.expired += 1
        if self.alarm_ms is None or now_ms < self.alarm_ms:
            return Decision()
        return Decision([Counted("time")], [Reply(ticket, "late") for ticket in self.waiting])

    def next_deadline_ms(self) -> int | None:
        return self.alarm_ms

    def apply(self, fact: Counted) -> None:
        self.counts[fact.word] = self.counts.get(fact.word, 0) + 1
        if fact.word == "time":
            self.alarm_ms = None

    def encode(self, fact: Counted) -> LogRecord:
        return LogRecord(fact.word.encode(), b"+1")

    def replay(self, record: LogRecord) -> None:
        assert record.key is not None
        self.apply(Counted(record.key.decode()))

    def decided(self, marker: LogMarker) -> list[Counted]:
        return [Counted(f"{'committed' if marker.is_commit else 'aborted'} {marker.producer_id}", durable=False)]


class Hosted:
    """A tally with its log in a house."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.house = House(files, TALLY)
        self.tally = Tally()
        self.applied: list[list[Any]] = []
        self.host = MachineHost(
            self.tally,
            self.house.replicas.leader("tally", 0),
            self.house.replicas,
            self.house.waiting,
            SteadyTime(self.house.clock),
            self.applied.append,
            codes={Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR},
            safe_within_ms=SAFE_WITHIN_MS,
        )

    @property
    def replica(self) -> Replica:
        return self.host.replica

    def pass_time(self, ms: int) -> None:
        self.house.clock.advance(ms)
        self.house.loop.advance(ms)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run(test: Callable[[Hosted], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def with_host() -> None:
        await test(Hosted())

    def wrapped() -> None:
        asyncio.run(with_host())

    wrapped.__name__ = test.__name__
    return wrapped


@run
async def test_what_was_asked_has_happened_at_once_but_the_answer_waits_until_it_is_safe(hosted: Hosted) -> None:
    answer = hosted.host.ask(Say("hello"))

    assert hosted.tally.counts == {"hello": 1}
    assert (hosted.replica.log.end_offset, hosted.replica.high_watermark) == (1, 0)
    assert not answer.done()
    await hosted.house.settle()

    assert answer.result() == 1


@run
async def test_a_second_command_sees_what_the_first_decided(hosted: Hosted) -> None:
    answers = [hosted.host.ask(Say("hello")) for _ in range(3)]
    await hosted.house.settle()

    assert [answer.result() for answer in answers] == [1, 2, 3]


@run
async def test_even_a_mere_question_waits_for_what_it_read_to_be_safe(hosted: Hosted) -> None:
    """Else a client could act on what a crash then takes back."""
    hosted.host.ask(Say("hello"))
    answer = hosted.host.ask(Ask("hello"))
    assert not answer.done()

    await hosted.house.settle()

    assert answer.result() == 1
    assert hosted.host.ask(Ask("hello")).result() == 1


@run
async def test_a_refusal_changes_nothing(hosted: Hosted) -> None:
    with pytest.raises(Refused) as caught:
        hosted.host.ask(Say(""))

    assert caught.value.code == Code.INVALID_REQUEST
    assert hosted.replica.log.end_offset == 0
    assert hosted.applied == []


@run
async def test_volatile_facts_are_applied_and_not_logged(hosted: Hosted) -> None:
    answer = hosted.host.ask(Whisper("psst"))

    assert answer.result() == "heard"
    assert hosted.tally.counts == {"psst": 1}
    assert hosted.replica.log.end_offset == 0


@run
async def test_one_command_may_answer_others(hosted: Hosted) -> None:
    first, second = hosted.host.ask(WaitForBell()), hosted.host.ask(WaitForBell())
    assert not first.done()

    bell = hosted.host.ask(AnswerAll())
    await hosted.house.settle()

    assert (first.result(), second.result(), bell.result()) == ("ding", "ding", "done")


@run
async def test_whoever_listens_hears_the_facts(hosted: Hosted) -> None:
    hosted.host.ask(Say("hello"))
    hosted.host.ask(Ask("hello"))

    assert hosted.applied == [[Counted("hello")]]
    await hosted.house.settle()


@run
async def test_the_facts_of_a_command_are_one_batch(hosted: Hosted) -> None:
    hosted.host.ask(Say("hello"))
    hosted.host.ask(Say("world"))
    await hosted.house.settle()

    assert list(records_of(hosted.replica.log)) == [LogRecord(b"hello", b"+1"), LogRecord(b"world", b"+1")]


@run
async def test_facts_that_stand_for_themselves_may_be_more_than_a_batch_holds(hosted: Hosted) -> None:
    words = [f"word {number} {'x' * 1_000}" for number in range(2_000)]  # two megabytes

    with pytest.raises(Refused) as caught:
        hosted.host.ask(SayAll(words, is_atomic=True))
    assert caught.value.code == Code.MESSAGE_TOO_LARGE
    assert hosted.tally.counts == {}

    answer = hosted.host.ask(SayAll(words, is_atomic=False))
    await hosted.house.settle()

    assert answer.result() == 2_000
    assert [record.key for record in records_of(hosted.replica.log)] == [word.encode() for word in words]
    assert [fact.word for facts in hosted.applied for fact in facts] == words


@run
async def test_of_facts_that_stand_for_themselves_those_are_true_that_the_log_took(hosted: Hosted) -> None:
    words = [f"word {number} {'x' * 1_000}" for number in range(2_000)]

    def full_after_the_first(facts: list[Any]) -> None:
        hosted.house.files.failures["write"] = ENOSPC

    hosted.host._applied = full_after_the_first
    with pytest.raises(Refused):
        hosted.host.ask(SayAll(words, is_atomic=False))
    await hosted.house.settle()

    written = [record.key.decode() for record in records_of(hosted.replica.log) if record.key is not None]
    assert 0 < len(written) < len(words)
    assert list(hosted.tally.counts) == written


@run
async def test_whoever_waits_for_what_does_not_become_safe_is_told_so_in_the_end(hosted: Hosted) -> None:
    """A follower is gone, say: the client may look for another coordinator, and nothing piles up here."""
    written, read = hosted.host.ask(Say("hello")), hosted.host.ask(Ask("hello"))

    hosted.pass_time(SAFE_WITHIN_MS)

    for answer in (written, read):
        refusal = answer.exception()
        assert isinstance(refusal, Refused)
        assert refusal.code == Code.REQUEST_TIMED_OUT
    assert hosted.host._asked == {}
    await hosted.house.settle()


@run
async def test_a_wall_clock_that_is_set_back_for_hours_stops_no_machine(hosted: Hosted) -> None:
    hosted.house.clock.wall_ms -= 3 * 3_600_000

    answer = hosted.host.ask(Say("hello"))
    await hosted.house.settle()

    assert answer.result() == 1


@run
async def test_a_machine_is_told_a_time_that_never_jumps_and_what_the_wall_clock_shows(hosted: Hosted) -> None:
    hosted.house.clock.wall_ms += 3_600_000
    hosted.tally.alarm_ms = NOW_MS + 500

    hosted.host.ask(Ask("hello"))
    assert hosted.tally.told_ms == (NOW_MS, NOW_MS + 3_600_000)
    hosted.pass_time(500)

    assert hosted.tally.told_ms == (NOW_MS + 500, NOW_MS + 3_600_500)
    await hosted.house.settle()


# --- transactions


ONE = 7  # a producer


def guarded(hosted: Hosted, epoch: int = 0) -> Transactional:
    """As if the coordinator of the transaction had confirmed it."""
    header = read_header(build([KeyValue(b"", b"")], 0, producer_id=ONE, producer_epoch=epoch, base_sequence=0))
    return Transactional(ONE, epoch, hosted.replica.log.producers.begin_verification(header))


@run
async def test_what_a_command_writes_in_a_transaction_is_a_batch_of_its_producer(hosted: Hosted) -> None:
    answers = [
        hosted.host.ask(Say("hello"), guarded(hosted)),
        hosted.host.ask(Say("again"), Transactional(ONE, 0, None)),
    ]
    hosted.host.ask(Say("plain"))
    await hosted.house.settle()

    assert [answer.result() for answer in answers] == [1, 1]
    records = [LogRecord(b"hello", b"+1", ONE), LogRecord(b"again", b"+1", ONE), LogRecord(b"plain", b"+1")]
    assert list(entries_of(hosted.replica.log)) == records
    assert hosted.replica.log.first_undecided(3) == 0


@run
async def test_without_a_verified_transaction_nothing_is_written_or_applied(hosted: Hosted) -> None:
    for within, code in (
        (Transactional(ONE, 0, None), Code.INVALID_TXN_STATE),
        (guarded(hosted, epoch=3), Code.NONE),
        (Transactional(ONE, 2, None), Code.INVALID_PRODUCER_EPOCH),
    ):
        if not code:
            hosted.host.ask(Say("taken"), within)
            continue
        with pytest.raises(Refused) as caught:
            hosted.host.ask(Say("refused"), within)
        assert caught.value.code == code
    await hosted.house.settle()
    assert hosted.tally.counts == {"taken": 1}


@run
async def test_a_marker_is_applied_when_it_is_written_and_once(hosted: Hosted) -> None:
    hosted.host.ask(Say("hello"), guarded(hosted))
    for _ in range(2):  # a marker that comes again, with transaction version 2
        hosted.host.append_marker(Marker(False, 0), ONE, 1, 2)
    await hosted.house.settle()

    assert hosted.tally.counts == {"hello": 1, "aborted 7": 1}
    assert hosted.applied[-1] == [Counted("aborted 7", durable=False)]
    assert list(entries_of(hosted.replica.log)) == [LogRecord(b"hello", b"+1", ONE), LogMarker(ONE, is_commit=False)]


@run
async def test_a_marker_that_is_refused_is_not_applied(hosted: Hosted) -> None:
    hosted.host.ask(Say("hello"), guarded(hosted, epoch=3))
    with pytest.raises(Refused) as caught:
        hosted.host.append_marker(Marker(True, 0), ONE, 2, 0)
    assert caught.value.code == Code.INVALID_PRODUCER_EPOCH
    await hosted.house.settle()
    assert hosted.tally.counts == {"hello": 1}


@run
async def test_markers_are_replayed_where_they_are_in_the_log(hosted: Hosted) -> None:
    hosted.host.ask(Say("hello"), guarded(hosted))
    hosted.host.append_marker(Marker(True, 0), ONE, 0, 0)
    hosted.host.ask(Say("plain"))
    await hosted.house.settle()

    again = Hosted(hosted.house.files)

    assert again.host.replay() == 3
    assert again.tally.counts == {"hello": 1, "committed 7": 1, "plain": 1}


# --- replay


@run
async def test_replaying_the_log_gives_the_durable_state_again(hosted: Hosted) -> None:
    for word in ("a", "b", "a"):
        hosted.host.ask(Say(word))
    hosted.host.ask(Whisper("b"))
    await hosted.house.settle()
    hosted.house.files.crash()

    again = Hosted(hosted.house.files)

    assert again.host.replay() == 3
    assert again.tally.counts == {"a": 2, "b": 1}


@run
async def test_a_damaged_log_is_not_replayed_as_if_it_were_sound(hosted: Hosted) -> None:
    hosted.host.ask(Say("hello"))
    await hosted.house.settle()
    hosted.house.checkpoints.write(hosted.house.replicas.held())
    hosted.house.files.flip("tally-0/00000000000000000000.log", 8 * 70)

    again = Hosted(hosted.house.files)

    with pytest.raises(Corrupt):
        again.host.replay()


# --- disks that fail


@run
async def test_when_the_disk_is_full_nothing_has_happened(hosted: Hosted) -> None:
    hosted.house.files.failures["write"] = ENOSPC
    with pytest.raises(Refused) as caught:
        hosted.host.ask(Say("hello"))
    assert caught.value.code == Code.NOT_COORDINATOR  # in the words of those that ask this machine
    assert hosted.tally.counts == {}

    hosted.house.files.failures.clear()
    answer = hosted.host.ask(Say("hello"))
    await hosted.house.settle()

    assert answer.result() == 1


@run
async def test_when_the_sync_fails_nobody_is_told_that_it_is_done(hosted: Hosted) -> None:
    answer = hosted.host.ask(Say("hello"))
    hosted.house.files.failures["sync"] = EIO
    await hosted.house.settle()

    with pytest.raises(Refused) as caught:
        answer.result()
    assert caught.value.code == Code.NOT_COORDINATOR


@run
async def test_a_log_that_is_lost_while_it_is_asked_refuses_and_takes_the_machine_with_it(hosted: Hosted) -> None:
    waiting = hosted.host.ask(WaitForBell())
    hosted.house.subscribers.went_offline.append(lambda replica: hosted.host.close())
    hosted.house.files.failures["write"] = EIO

    with pytest.raises(Refused) as caught:
        hosted.host.ask(Say("hello"))

    assert caught.value.code == Code.NOT_COORDINATOR
    assert isinstance(waiting.exception(), Refused)
    del waiting
    gc.collect()  # an exception that nothing fetched would be reported now, and warnings are errors


# --- time


@run
async def test_while_the_log_takes_nothing_time_is_decided_on_once_a_second(
    hosted: Hosted,
) -> None:
    """While the log takes nothing time is decided on once a second whoever asks meanwhile."""
    hosted.tally.alarm_ms = NOW_MS
    hosted.house.files.failures["write"] = ENOSPC
    hosted.host.ask(Ask("time"))
    for _ in range(100):
        hosted.pass_time(10)
        hosted.host.ask(Ask("time"))
    assert 1 <= hosted.tally.expired <= 2

    hosted.house.files.failures.clear()
    hosted.pass_time(RETRY_MS)
    assert hosted.tally.counts == {"time": 1}
    await hosted.house.settle()


@run
async def test_time_that_passes_is_decided_on_when_it_is_due(hosted: Hosted) -> None:
    hosted.tally.alarm_ms = NOW_MS + 500
    waiting = hosted.host.ask(WaitForBell())
    hosted.host.ask(Ask("time"))

    hosted.pass_time(499)
    assert hosted.tally.counts == {}
    hosted.pass_time(1)
    assert hosted.tally.counts == {"time": 1}
    assert not waiting.done()
    await hosted.house.settle()

    assert waiting.result() == "late"


@run
async def test_a_deadline_that_moves_is_followed(hosted: Hosted) -> None:
    hosted.tally.alarm_ms = NOW_MS + 500
    hosted.host.ask(Ask("x"))
    hosted.tally.alarm_ms = NOW_MS + 2000
    hosted.host.ask(Ask("x"))

    hosted.pass_time(1000)
    assert hosted.tally.counts == {}
    hosted.pass_time(1000)

    assert hosted.tally.counts == {"time": 1}
    await hosted.house.settle()


@run
async def test_what_the_disk_did_not_take_is_due_again_later(hosted: Hosted) -> None:
    hosted.tally.alarm_ms = NOW_MS + 500
    waiting = hosted.host.ask(WaitForBell())
    hosted.house.files.failures["write"] = ENOSPC
    hosted.pass_time(500)
    assert hosted.tally.counts == {}
    assert isinstance(waiting.exception(), Refused)

    hosted.house.files.failures.clear()
    hosted.pass_time(RETRY_MS)

    assert hosted.tally.counts == {"time": 1}
    await hosted.house.settle()


@run
async def test_a_closed_host_answers_that_this_is_the_wrong_place_and_keeps_no_time(hosted: Hosted) -> None:
    hosted.tally.alarm_ms = NOW_MS + 500
    waiting = hosted.host.ask(WaitForBell())

    hosted.host.close()
    hosted.pass_time(1000)

    refused = cast(Refused, waiting.exception())
    assert refused.code == Code.NOT_COORDINATOR
    assert hosted.tally.counts == {}


@run
async def test_a_host_that_its_own_write_brought_down_keeps_no_time(hosted: Hosted) -> None:
    hosted.tally.alarm_ms = NOW_MS + 500
    hosted.host.ask(WaitForBell()).add_done_callback(lambda answer: answer.exception())
    hosted.house.subscribers.went_offline.append(lambda replica: hosted.host.close())
    hosted.house.files.failures["write"] = OSError(errno.EIO, "Input/output error")
    hosted.pass_time(500)

    assert hosted.host._deadline is None
    assert hosted.tally.counts == {}
