"""The judge: keeps what every client was answered, and holds each later answer against it.

What is promised is taken down when it is known to a client, and compared from the moment on that a *later* request is
sent: so a delayed answer never counts as a step back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from chronik.core.errors import Corrupt
from chronik.core.records.payload import Record, walk
from chronik.core.types import TopicPartition
from chronik.sim.hints import LeaderHints, Placed
from chronik.sim.holders import Holders
from chronik.sim.starts import Starts
from chronik.sim.story import WorldStory


class CheckedCoordinator(NamedTuple):
    """Which node coordinates a group, and since when."""

    host: str  # "" when there is no choice
    leader_epoch: int


Committer = tuple[str, int]  # a member, and the generation or epoch that it is in


class Truth(Protocol):
    """What is so, whether or not any client has heard of it."""

    def in_sync(self, name: TopicPartition) -> tuple[int, ...]:
        """The nodes in whose copies all that is safe must be; empty when that is not known."""

    def leader_epoch(self, name: TopicPartition) -> int: ...

    def hidden_end(self, name: TopicPartition) -> int:
        """Where the log of a leader ends, however much of it is safe; 0 when that is not known."""

    def coordinator(self, group: str) -> CheckedCoordinator: ...

    def placed(self, address: tuple[str, int], name: TopicPartition) -> Placed | None:
        """What the image of the node there has of a partition now; None when it does not run or know it."""

    def log_of(self, group: str) -> TopicPartition | None:
        """Where what the coordinator knows of a group is written; None while there is no such log."""


class OneNode:
    """The truth of a world in which nothing ever moves."""

    def in_sync(self, name: TopicPartition) -> tuple[int, ...]:
        return ()

    def leader_epoch(self, name: TopicPartition) -> int:
        return 0

    def hidden_end(self, name: TopicPartition) -> int:
        return 0

    def coordinator(self, group: str) -> CheckedCoordinator:
        return CheckedCoordinator("", 0)

    def placed(self, address: tuple[str, int], name: TopicPartition) -> Placed | None:
        return None

    def log_of(self, group: str) -> TopicPartition | None:
        return None


@dataclass(slots=True)
class KnownPartition:
    """What clients know of one partition."""

    written: dict[bytes, bool] = field(default_factory=dict)  # every value ever sent there, and whether idempotently
    promised: dict[int, bytes] = field(default_factory=dict)  # acknowledged, by offset
    seen: dict[int, bytes] = field(default_factory=dict)  # read by any client, by offset
    place: dict[bytes, int] = field(default_factory=dict)  # where a value of an idempotent producer stands
    watermarks: dict[int, int] = field(default_factory=dict)  # the furthest that any client was sent, by leader epoch
    # Acknowledged by a leader alone, by offset, with its epoch: promised while no other node has led.
    leaders_word: dict[int, tuple[bytes, int]] = field(default_factory=dict)

    @property
    def watermark(self) -> int:
        """The furthest that any client was sent."""
        return max(self.watermarks.values(), default=0)

    def watermark_at(self, leader_epoch: int) -> int:
        """The furthest that leaders of this epoch and earlier ones reported. A later leader knows at least as much; an
        earlier one, that has not heard that it is none any more, need not."""
        return max((said for epoch, said in self.watermarks.items() if epoch <= leader_epoch), default=0)

    def watermark_within(self, leader_epoch: int) -> int:
        """The furthest that the leader of this epoch reported. Until it knows as much as those before it (list-offsets
        says OFFSET_NOT_AVAILABLE then), a fetch gives what it surely has, with the watermark that goes with it."""
        return self.watermarks.get(leader_epoch, 0)


class Judge:
    """What the world's clients were answered. Each method that finds a broken promise raises Violation."""

    def __init__(self, story: WorldStory, node_count: int = 1) -> None:
        self._story = story
        self.node_count = node_count
        self.partitions: dict[TopicPartition, KnownPartition] = {}
        self.damage: dict[TopicPartition, set[int]] = {}  # nodes on whose disk bits of a partition were turned over
        self.truth: Truth = OneNode()
        self._commits: dict[tuple[str, TopicPartition], int] = {}
        self._given_up: dict[tuple[str, TopicPartition], set[tuple[Committer, int]]] = {}
        self.holders = Holders(story)
        self.hints = LeaderHints(story)
        self.starts = Starts(story)
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}

    def known(self, name: TopicPartition) -> KnownPartition:
        if name not in self.partitions:
            self.partitions[name] = KnownPartition()
        return self.partitions[name]

    def damaged(self, name: TopicPartition, node_id: int) -> None:
        self.damage.setdefault(name, set()).add(node_id)

    def repaired(self, name: TopicPartition, node_id: int) -> None:
        """The damaged copy is not used any more."""
        self.damage.get(name, set()).discard(node_id)

    def may_refuse(self, name: TopicPartition) -> bool:
        """Whether every copy that has all that is safe was damaged: refusing is right then, lying is not."""
        damaged = self.damage.get(name, set())
        return bool(damaged) and damaged.issuperset(self.truth.in_sync(name) or damaged)

    def may_refuse_group(self, group: str) -> bool:
        """Whether that goes for the log of a group's coordinator, and so for all it is asked."""
        name = self.truth.log_of(group)
        return name is not None and self.may_refuse(name)

    # --- produced

    def sent(self, name: TopicPartition, values: list[bytes], *, is_idempotent: bool) -> None:
        self.known(name).written.update(dict.fromkeys(values, is_idempotent))

    def acknowledged(
        self, who: str, name: TopicPartition, base_offset: int, values: list[bytes], leader_epoch: int | None = None
    ) -> None:
        """An acknowledgement that is a promise: these values, at these offsets, for ever. With a leader epoch it is
        only the word of that leader: as long as it leads."""
        if base_offset < 0:
            raise self._story.break_promise(f"{who}: {name} acknowledged a batch at offset {base_offset}")
        known = self.known(name)
        if leader_epoch is not None:
            known.leaders_word.update({o: (value, leader_epoch) for o, value in enumerate(values, base_offset)})
            return
        for offset, value in enumerate(values, base_offset):
            before = known.promised.get(offset, known.seen.get(offset, value))
            if before != value:
                raise self._story.break_promise(
                    f"{who}: {name} offset {offset} acknowledged for {_short(value)}, there stands {_short(before)}"
                )
            known.promised[offset] = value
            self._placed(who, name, known, offset, value)

    def _placed(self, who: str, name: TopicPartition, known: KnownPartition, offset: int, value: bytes) -> None:
        if known.place.get(value, offset) < self.starts.limit(name):
            # What was deleted may be unknown to a replica that came after that: a retry is a new record there.
            known.place[value] = offset
        if known.written.get(value) and known.place.setdefault(value, offset) != offset:
            raise self._story.break_promise(
                f"{who}: {name} has {_short(value)} of an idempotent producer at {known.place[value]} and at {offset}"
            )

    # --- read

    def read(
        self,
        who: str,
        name: TopicPartition,
        from_offset: int,
        records: bytes,
        response_watermark: int,
        known_watermark: int,
        leader_epoch: int = 0,
    ) -> int:
        """What a fetch brought, asked for when `known_watermark` was known. Returns where to go on."""
        self.watermark(who, name, response_watermark, known_watermark, leader_epoch)
        try:
            found = list(walk(records))
        except Corrupt as problem:
            raise self._story.break_promise(f"{who}: {name} from {from_offset}: {problem}") from problem
        next_offset = from_offset
        for record in self._dense(who, name, from_offset, found):
            if record.offset >= response_watermark:
                raise self._story.break_promise(
                    f"{who}: {name} offset {record.offset} was given, and the watermark is {response_watermark}"
                )
            self._saw(who, name, record)
            next_offset = record.offset + 1
        return next_offset

    def _dense(self, who: str, name: TopicPartition, from_offset: int, found: list[Record]) -> Iterator[Record]:
        """Those from `from_offset` on (the first batch may begin before it), without a gap."""
        if not found:
            return
        expected = min(from_offset, found[0].offset)
        for record in found:
            if record.offset != expected:
                raise self._story.break_promise(
                    f"{who}: {name} has offset {record.offset} where {expected} is due, from {from_offset}"
                )
            expected += 1
            if record.offset >= from_offset:
                yield record

    def _saw(self, who: str, name: TopicPartition, record: Record) -> None:
        known, value = self.known(name), record.value or b""
        if value not in known.written:
            raise self._story.break_promise(
                f"{who}: {name} offset {record.offset} has {_short(value)}, nothing sent that"
            )
        for said, words in ((known.promised, "acknowledged"), (known.seen, "read before")):
            before = said.get(record.offset)
            if before is not None and before != value:
                raise self._story.break_promise(
                    f"{who}: {name} offset {record.offset} has {_short(value)}, {words} was {_short(before)}"
                )
        known.seen[record.offset] = value
        self._placed(who, name, known, record.offset, value)

    def watermark(self, who: str, name: TopicPartition, said: int, known_before: int, leader_epoch: int = 0) -> None:
        """Said in an answer to a request that was sent when `known_before` was known."""
        if said < known_before:
            raise self._story.break_promise(f"{who}: the watermark of {name} went back from {known_before} to {said}")
        watermarks = self.known(name).watermarks
        watermarks[leader_epoch] = max(watermarks.get(leader_epoch, 0), said)

    def complete(self, name: TopicPartition, end_offset: int, read: dict[int, bytes], start_offset: int = 0) -> None:
        """After everything: whatever was promised or seen is there, from where the log begins."""
        known, leader_epoch = self.known(name), self.truth.leader_epoch(name)
        # What only the leader promised (acks=1) need not be safe yet, while a follower is still to fetch it.
        hidden = range(end_offset, self.truth.hidden_end(name))
        word = {
            offset: value
            for offset, (value, epoch) in known.leaders_word.items()
            if epoch == leader_epoch and offset not in hidden
        }
        for said, words in (
            (known.promised, "acknowledged"),
            (known.seen, "read"),
            (word, "acknowledged by its leader"),
        ):
            for offset, value in said.items():
                if offset >= start_offset and read.get(offset) != value:
                    raise self._story.break_promise(f"{name} offset {offset} was {words} ({_short(value)}) and is lost")
        if end_offset < known.watermark:
            raise self._story.break_promise(f"{name} ends at {end_offset}, the watermark was {known.watermark}")
        self._in_order(name, read)

    def _in_order(self, name: TopicPartition, read: dict[int, bytes]) -> None:
        """An idempotent producer's values stand in the order in which it sent them."""
        last: dict[bytes, int] = {}
        for offset in sorted(read):
            producer, number, _ = read[offset].split(b":", 2)
            if self.known(name).written.get(read[offset]):
                if int(number) <= last.get(producer, -1):
                    raise self._story.break_promise(f"{name} offset {offset}: {_short(read[offset])} is out of order")
                last[producer] = int(number)

    # --- groups

    def committed(self, group: str, name: TopicPartition, offset: int, by: Committer) -> None:
        """A commit was acknowledged: what another member, or this one at another epoch, gave up is refused by now."""
        key = group, name
        if not any(given_up <= offset for _, given_up in self._given_up.get(key, ())):
            offset = max(self._commits.get(key, -1), offset)
        self._commits[key] = offset  # lower than before only when it goes on from what came late
        self._given_up[key] = {given_up for given_up in self._given_up.get(key, ()) if given_up[0] == by}

    def commit_given_up(self, group: str, name: TopicPartition, offset: int, by: Committer) -> None:
        """Nothing heard what became of it. It may arrive after a later one of the same member at the same epoch, and
        count all the same: nothing in it says which came first."""
        self._given_up.setdefault((group, name), set()).add((by, offset))

    def commit_known(self, group: str, name: TopicPartition) -> int:
        return self._commits.get((group, name), -1)

    def commit_read(self, who: str, group: str, name: TopicPartition, offset: int, known_before: int) -> None:
        """Said by the group's coordinator in an answer to a request that was sent when `known_before` was known."""
        key = group, name
        if offset >= min(known_before, self.commit_known(group, name)):
            return
        if offset not in {given_up for _, given_up in self._given_up.get(key, ())}:
            raise self._story.break_promise(
                f"{who}: {group} had committed {known_before} of {name}, now it is {offset}"
            )
        self._commits[key] = offset

    def owns(self, group: str, generation: int, name: TopicPartition, member: str) -> None:
        owner = self._owners.setdefault((group, generation, name), member)
        if owner != member:
            raise self._story.break_promise(
                f"{name} belongs to {owner} and to {member} in generation {generation} of {group}"
            )


def _short(value: bytes) -> str:
    return value[:24].decode("latin-1")
