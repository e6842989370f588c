"""The judge: keeps what every client was told, and holds each later answer against it.

What is promised is taken down when it is known to a client, and compared from the moment on that a *later* request is
sent: so a delayed answer never counts as a step back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from chronik.core.errors import Corrupt
from chronik.core.records.payload import Record, walk
from chronik.core.types import TopicPartition
from chronik.sim.story import Story


@dataclass(slots=True)
class Known:
    """What clients know of one partition."""

    written: dict[bytes, bool] = field(default_factory=dict)  # every value ever sent there, and whether idempotently
    promised: dict[int, bytes] = field(default_factory=dict)  # acknowledged, by offset
    seen: dict[int, bytes] = field(default_factory=dict)  # read by anybody, by offset
    place: dict[bytes, int] = field(default_factory=dict)  # where a value of an idempotent producer stands
    watermark: int = 0  # the furthest anybody was told of


class Judge:
    """What the world's clients were told. Each method that finds a broken promise raises Violation."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.partitions: dict[TopicPartition, Known] = {}
        self.damaged: set[TopicPartition] = set()  # bits were turned over on disk: refusing is right, lying is not
        self._commits: dict[tuple[str, TopicPartition], int] = {}
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}

    def known(self, name: TopicPartition) -> Known:
        if name not in self.partitions:
            self.partitions[name] = Known()
        return self.partitions[name]

    # --- produced

    def sent(self, name: TopicPartition, values: list[bytes], *, is_idempotent: bool) -> None:
        self.known(name).written.update(dict.fromkeys(values, is_idempotent))

    def acknowledged(self, who: str, name: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        """An acknowledgement that is a promise: these values, at these offsets, for ever."""
        if base_offset < 0:
            raise self._story.break_promise(f"{who}: {name} acknowledged a batch at offset {base_offset}")
        known = self.known(name)
        for offset, value in enumerate(values, base_offset):
            before = known.promised.get(offset, known.seen.get(offset, value))
            if before != value:
                raise self._story.break_promise(
                    f"{who}: {name} offset {offset} acknowledged for {_short(value)}, there stands {_short(before)}"
                )
            known.promised[offset] = value
            self._placed(who, name, known, offset, value)

    def _placed(self, who: str, name: TopicPartition, known: Known, offset: int, value: bytes) -> None:
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
        told_watermark: int,
        known_watermark: int,
    ) -> int:
        """What a fetch brought, asked for when `known_watermark` was known. Returns where to go on."""
        self.watermark(who, name, told_watermark, known_watermark)
        try:
            found = list(walk(records))
        except Corrupt as problem:
            raise self._story.break_promise(f"{who}: {name} from {from_offset}: {problem}") from problem
        next_offset = from_offset
        for record in self._dense(who, name, from_offset, found):
            if record.offset >= told_watermark:
                raise self._story.break_promise(
                    f"{who}: {name} offset {record.offset} was given, and the watermark is {told_watermark}"
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
                f"{who}: {name} offset {record.offset} has {_short(value)}, nobody sent that"
            )
        for told, words in ((known.promised, "acknowledged"), (known.seen, "read before")):
            before = told.get(record.offset)
            if before is not None and before != value:
                raise self._story.break_promise(
                    f"{who}: {name} offset {record.offset} has {_short(value)}, {words} was {_short(before)}"
                )
        known.seen[record.offset] = value
        self._placed(who, name, known, record.offset, value)

    def watermark(self, who: str, name: TopicPartition, told: int, known_before: int) -> None:
        """Said in an answer to a request that was sent when `known_before` was known."""
        if told < known_before:
            raise self._story.break_promise(f"{who}: the watermark of {name} went back from {known_before} to {told}")
        known = self.known(name)
        known.watermark = max(known.watermark, told)

    def complete(self, name: TopicPartition, end_offset: int, read: dict[int, bytes]) -> None:
        """After everything: whatever was promised or seen is there."""
        known = self.known(name)
        for told, words in ((known.promised, "acknowledged"), (known.seen, "read")):
            for offset, value in told.items():
                if read.get(offset) != value:
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

    def committed(self, group: str, name: TopicPartition, offset: int) -> None:
        """A commit was acknowledged."""
        key = group, name
        self._commits[key] = max(self._commits.get(key, -1), offset)

    def commit_known(self, group: str, name: TopicPartition) -> int:
        return self._commits.get((group, name), -1)

    def commit_read(self, who: str, group: str, name: TopicPartition, offset: int, known_before: int) -> None:
        if offset < known_before:
            raise self._story.break_promise(
                f"{who}: {group} had committed {known_before} of {name}, now it is {offset}"
            )

    def owns(self, group: str, generation: int, name: TopicPartition, member: str) -> None:
        owner = self._owners.setdefault((group, generation, name), member)
        if owner != member:
            raise self._story.break_promise(
                f"{name} belongs to {owner} and to {member} in generation {generation} of {group}"
            )


def _short(value: bytes) -> str:
    return value[:24].decode("latin-1")
