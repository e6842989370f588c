"""One record: itself, and `chronik where` as a timeline of what is known to have happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chronik.client.words import byte_size, count, counted
from chronik.console.pages.frame import Frame
from chronik.console.words import ShownContent, content, plain, time_of
from chronik.inspect.record_format import ShownRecord
from chronik.trace.inspections import RecordPlace
from chronik.trace.story import RecordStory

SHOWN_BYTES_MAX = 128 * 1024
HEADER_BYTES_MAX = 1_000
DELIVERIES_MAX = 50
READABLE = {True: "given to consumers", False: "not given to consumers", None: "not known"}
ACKS = {-1: "all", 0: "0", 1: "1"}


@dataclass(frozen=True)
class TimelineStep:
    """Something that happened, or stands; `at` is None where the time is not known."""

    at: str | None
    kind: str
    words: str


@dataclass(frozen=True)
class CopyShown:
    node: int
    role: str
    is_in_sync: bool
    words: str
    replicated_at: str | None


@dataclass(frozen=True)
class HeaderShown:
    name: str
    value: ShownContent


@dataclass(frozen=True)
class RecordPage:
    frame: Frame
    topic: str
    partition: int
    offset: int
    place: str
    mood: str
    """`good`, `wait` or `bad`."""
    summary: str
    timestamp: str | None
    key: ShownContent | None
    """None: the record itself is not there to be shown."""
    value: ShownContent | None
    headers: tuple[HeaderShown, ...]
    facts: tuple[tuple[str, str], ...]
    timeline: tuple[TimelineStep, ...]
    copies: tuple[CopyShown, ...]
    replaced: tuple[str, ...]
    unknown: tuple[str, ...]


def record_page(frame: Frame, story: RecordStory, record: ShownRecord | None) -> RecordPage:
    return RecordPage(
        frame,
        story.topic,
        story.partition,
        story.offset,
        str(story.place),
        _mood(story),
        story.summary,
        None if record is None else time_of(record.timestamp_ms),
        None if record is None else content(record.key, SHOWN_BYTES_MAX, is_indented=True),
        None if record is None else content(record.value, SHOWN_BYTES_MAX, is_indented=True),
        () if record is None else tuple(_headers(record)),
        tuple(_facts(story)),
        tuple(timeline(story)),
        tuple(
            CopyShown(
                copy.node, "leader" if copy.is_leader else "follower", copy.is_in_sync, copy.words,
                _time(copy.replicated_us),
            )
            for copy in story.copies
        ),
        story.replaced,
        story.unknown,
    )  # fmt: skip


def _headers(record: ShownRecord) -> Iterator[HeaderShown]:
    for key, value in record.headers:
        yield HeaderShown(key, content(value, HEADER_BYTES_MAX))


def _mood(story: RecordStory) -> str:
    if story.place is RecordPlace.HERE:
        return "good" if story.is_below_watermark else "wait"
    return "bad" if story.place in (RecordPlace.UNREADABLE, RecordPlace.NO_COPY) else "wait"


def _facts(story: RecordStory) -> Iterator[tuple[str, str]]:
    if (batch := story.batch) is not None:
        kind = " (control)" if batch.is_control else ""
        codec = "" if batch.codec == "none" else f", {batch.codec}"
        offsets = f"offsets {count(batch.base_offset)} to {count(batch.to_offset - 1)}{kind}"
        yield "batch", f"{offsets}, {counted(batch.record_count, 'record')}, {byte_size(batch.size_bytes)}{codec}"
        writer = "" if story.written_by < 0 else f", when node {story.written_by} led"
        yield "written", f"in leader epoch {batch.leader_epoch}{writer}"
        if batch.producer_id >= 0:
            number = (batch.base_sequence + story.offset - batch.base_offset) & 0x7FFFFFFF
            yield "producer", f"id {batch.producer_id}, epoch {batch.producer_epoch}, sequence {number}"
        if story.transaction is not None:
            yield "transaction", plain(story.transaction.words)
            yield "read_committed", READABLE[story.is_readable_committed]
        yield "on disk", f"{batch.segment} at byte {count(batch.position)}"
    offsets_known = {
        "log start": story.log_start,
        "last stable": story.last_stable_offset,
        "high watermark": story.watermark,
        "next": story.next_offset,
    }
    if known := [f"{name} {count(offset)}" for name, offset in offsets_known.items() if offset >= 0]:
        yield "offsets", ", ".join(known)


def timeline(story: RecordStory) -> list[TimelineStep]:
    """In the order of the times that are known; what has no time stands at the end."""
    steps: list[tuple[int | None, str, str]] = []
    if (arrival := story.acknowledged) is not None:
        client = f"from {plain(arrival.client_id)} at {plain(arrival.host)}, taken by node {arrival.node}"
        if arrival.appended_us is not None:
            steps.append((arrival.appended_us, "appended", client))
        if arrival.retries:
            steps.append(
                (arrival.appended_us, "sent again", f"{counted(arrival.retries, 'time')}, and not taken twice")
            )
        if arrival.answered_us is not None:
            took = "" if arrival.took_us is None else f", {arrival.took_us / 1000:.1f} ms after the request"
            in_sync = f", in sync were {', '.join(map(str, arrival.in_sync))}" if arrival.in_sync else ""
            steps.append(
                (arrival.answered_us, "acknowledged", f"acks={ACKS.get(arrival.acks, arrival.acks)}{in_sync}{took}")
            )
        elif arrival.acks == 0:
            steps.append((arrival.appended_us, "never acknowledged", "its producer did not want to know (acks=0)"))
    for copy in story.copies:
        if copy.replicated_us is not None and not copy.is_leader:
            steps.append((copy.replicated_us, "replicated", f"node {copy.node} has it on disk"))
    if story.visible_us is not None:
        steps.append((story.visible_us, "readable", "the high watermark passed it"))
    if story.transaction is not None and story.transaction.marked_us is not None:
        steps.append((story.transaction.marked_us, str(story.transaction.fate), plain(story.transaction.words)))
    for each in story.delivered[:DELIVERIES_MAX]:
        group = "" if each.group is None else f" (group {plain(each.group)}, inferred)"
        words = f"{plain(each.client_id)} at {plain(each.host)}{group}, by node {each.node}, with offsets "
        steps.append((each.at_us, "fetched", f"{words}{count(each.from_offset)} to {count(each.to_offset - 1)}"))
    if len(story.delivered) > DELIVERIES_MAX:
        more = counted(len(story.delivered) - DELIVERIES_MAX, "more answer")
        steps.append((story.delivered[DELIVERIES_MAX].at_us, "fetched", f"and {more}; the JSON form has the number"))
    for commit in story.committed:
        steps.append((commit.at_us, *_commit_words(plain(commit.group), commit.offset, commit.has_it)))
    steps.sort(key=lambda step: (step[0] is None, step[0] or 0))
    return [TimelineStep(_time(at_us), kind, words) for at_us, kind, words in steps]


def _commit_words(group: str, offset: int, has_it: bool | None) -> tuple[str, str]:
    if has_it is None:
        return "commit not known", f"group {group} has committed {count(offset)} at least"
    if has_it:
        return "committed", f"group {group} has committed up to {count(offset)}: it will not be given this record again"
    return "not committed yet", f"group {group} has committed up to {count(offset)}"


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else time_of(at_us / 1000)
