"""`chronik where`: one record's whole story, looked up instead of guessed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName, example
from chronik.cli.output import TerminalReporter, byte_size, console, count, counted, print_json, print_line, print_table
from chronik.client.admin import ClusterAdmin
from chronik.client.errors import ChronikError
from chronik.core.access.principal import ANONYMOUS
from chronik.inspect import find_record
from chronik.inspect.find_record import At, SearchResult
from chronik.inspect.gather_record import Gatherer
from chronik.inspect.record_format import ShownRecord, as_json_line, shown
from chronik.inspect.record_story import story_of
from chronik.trace.inspections import BatchSeen, RecordPlace
from chronik.trace.story import RecordStory

EXAMPLE = example(
    "chronik where orders 0 4711",
    "chronik where orders --key customer-7 --newest 3",
    "chronik where orders --producer-id 4000 --sequence 12 --json",
)
KEY_SHOWN_MAX = 80
DELIVERIES_SHOWN = 20
ACKS = {-1: "all", 0: "0", 1: "1"}


def where(
    topic: TopicName,
    partition: Annotated[int | None, typer.Argument(metavar="[PARTITION]", min=0)] = None,
    offset: Annotated[int | None, typer.Argument(metavar="[OFFSET]", min=0)] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="K", help="The newest record with this key; reads the topic.")
    ] = None,
    newest: Annotated[int, typer.Option("--newest", min=1, metavar="N", help="With --key: so many of them.")] = 1,
    producer_id: Annotated[
        int | None,
        typer.Option("--producer-id", min=0, metavar="P", help="Of an idempotent producer, with --sequence."),
    ] = None,
    sequence: Annotated[int | None, typer.Option("--sequence", min=0, metavar="S")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Where a record is: who took it, which replicas have it, who was given it, who has committed it."""
    _refuse_contradictions(partition, offset, key, producer_id, sequence)
    gatherer = Gatherer(ClusterAdmin(bootstrap), topic, TerminalReporter(has_bars=not as_json))
    found = _find(gatherer, partition, offset, key, newest, producer_id, sequence)
    told = [story_of(gatherer, place) for place in found.places]
    unread = f"whether there are others: {found.unread_words}" if found.unread else None
    if as_json:
        if unread is not None:
            told = [
                (msgspec.structs.replace(story, unknown=(*story.unknown, unread)), record) for story, record in told
            ]
        answers = [_as_json(story, record) for story, record in told]
        print_json(answers[0] if offset is not None else answers)
        return
    for number, (story, record) in enumerate(told):
        if number:
            print_line()
        _print(story, record)
    if unread is not None:
        from rich.text import Text

        print_line()
        console().print(Text(f"not known: {unread}", style="yellow"))


def _refuse_contradictions(
    partition: int | None, offset: int | None, key: str | None, producer_id: int | None, sequence: int | None
) -> None:
    if (producer_id is None) != (sequence is None):
        raise ChronikError("--producer-id and --sequence go together", "give both")
    ways = [offset is not None, key is not None, producer_id is not None]
    if sum(ways) != 1:
        hint = "give PARTITION and OFFSET, or --key, or --producer-id with --sequence"
        raise ChronikError("it must be said which record, in one way", hint)


def _find(
    gatherer: Gatherer,
    partition: int | None,
    offset: int | None,
    key: str | None,
    newest: int,
    producer_id: int | None,
    sequence: int | None,
) -> SearchResult:
    if partition is not None and offset is not None:
        return SearchResult([At(partition, offset)], {})
    state, cluster = gatherer.state, gatherer.cluster
    if partition is not None:
        gatherer.refuse_unknown(partition)
    partitions = [partition] if partition is not None else [each.partition for each in state.partitions]
    if key is not None:
        found = find_record.by_key(cluster, state, partitions, key.encode(), newest, gatherer.reporter)
        what = f"the key {key}"
    else:
        assert producer_id is not None  # or there would be no way given
        assert sequence is not None
        found = find_record.by_sequence(gatherer.addresses, state, partitions, producer_id, sequence)
        what = f"sequence number {sequence} of producer {producer_id}"
    found.refuse_nothing(state.name, what)
    return found


# --- as JSON


def _as_json(story: RecordStory, record: ShownRecord | None) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(story)
    told["record"] = None if record is None else msgspec.json.decode(as_json_line(record))
    return told


# --- for people


def _print(story: RecordStory, record: ShownRecord | None) -> None:
    from rich.table import Table
    from rich.text import Text

    paper = console()
    paper.print(Text(f"{story.topic}-{story.partition} offset {count(story.offset)}", style="bold"))
    paper.print(Text(story.summary, style=_colour(story)))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, words in _facts(story, record):
        facts.add_row(name, Text(words))
    paper.print(facts)
    _print_copies(story)
    _print_deliveries(story)
    _print_commits(story)
    if story.replaced or story.unknown:
        print_line()
    for line in story.replaced:
        paper.print(Text(f"before that: {line}"))
    for line in story.unknown:
        paper.print(Text(f"not known: {line}", style="yellow"))


def _colour(story: RecordStory) -> str:
    if story.place is RecordPlace.HERE:
        return "green" if story.is_below_watermark else "yellow"
    return "red" if story.place in (RecordPlace.UNREADABLE, RecordPlace.NO_COPY) else "yellow"


def _facts(story: RecordStory, record: ShownRecord | None) -> Iterator[tuple[str, str]]:
    if record is not None:
        yield "record", _record_words(record)
    if story.batch is not None:
        yield from _batch_facts(story.batch, story)
    if (told := story.acknowledged) is not None:
        client = f"on node {told.node}, from {told.client_id} at {told.host}{_as(told.principal)}"
        again = f"; sent again {counted(told.retries, 'time')}, and not taken twice" if told.retries else ""
        if told.appended_us is None:
            yield "sent again", client
        else:
            yield "appended", f"{_time(told.appended_us)} {client}"
        if told.answered_us is not None:
            took = "" if told.took_us is None else f" after {told.took_us / 1000:.1f} ms"
            in_sync = f", in sync {_listed(told.in_sync)}" if told.in_sync else ""
            acks = ACKS.get(told.acks, told.acks)
            yield "acknowledged", f"{_time(told.answered_us)}{took}, acks={acks}{in_sync}{again}"
        elif told.acks == 0:
            yield "acknowledged", f"never: its producer did not want to know (acks=0){again}"
    if story.visible_us is not None:
        yield "readable", f"since {_time(story.visible_us)}"
    if story.transaction is not None or story.is_readable_committed is False:
        yield (
            "read_committed",
            {True: "given to consumers", False: "not given to consumers", None: "not known"}[
                story.is_readable_committed
            ],
        )
    offsets = {
        "log start": story.log_start,
        "last stable": story.last_stable_offset,
        "watermark": story.watermark,
        "next": story.next_offset,
    }
    if known := [f"{name} {count(offset)}" for name, offset in offsets.items() if offset >= 0]:
        yield "offsets", ", ".join(known)


def _record_words(record: ShownRecord) -> str:
    when = "" if record.timestamp_ms is None else f"{_time(record.timestamp_ms * 1000)}  "
    key = "no key" if record.key is None else f"key {shown(record.key)[:KEY_SHOWN_MAX]}"
    size = "no value" if record.value is None else f"value of {byte_size(len(record.value))}"
    headers = f", {counted(len(record.headers), 'header')}" if record.headers else ""
    return f"{when}{key}, {size}{headers}"


def _batch_facts(batch: BatchSeen, story: RecordStory) -> Iterator[tuple[str, str]]:
    kind = " (control)" if batch.is_control else ""
    offsets = f"offsets {count(batch.base_offset)} to {count(batch.to_offset - 1)}"
    codec = "" if batch.codec == "none" else f", {batch.codec}"
    records = counted(batch.record_count, "record")
    yield "batch", f"{offsets}{kind}, {records}, {byte_size(batch.size_bytes)}{codec}"
    writer = "" if story.written_by < 0 else f", when node {story.written_by} led"
    yield "written", f"in leader epoch {batch.leader_epoch}{writer}"
    if batch.producer_id >= 0:
        number = (batch.base_sequence + story.offset - batch.base_offset) & 0x7FFFFFFF
        yield "producer", f"id {batch.producer_id}, epoch {batch.producer_epoch}, sequence {number}"
    if (transaction := story.transaction) is not None:
        when = "" if transaction.marked_us is None else f", written {_time(transaction.marked_us)}"
        yield "transaction", f"{transaction.words}{when}"
    yield "on disk", f"{batch.segment} at {count(batch.position)}"


def _print_copies(story: RecordStory) -> None:
    if story.copies:
        rows = [
            (
                copy.node,
                "leader" if copy.is_leader else "follower",
                copy.is_in_sync,
                copy.words,
                _when(copy.replicated_us),
            )
            for copy in story.copies
        ]
        print_line()
        print_table(["node", "role", "in sync", "", "leader heard so"], rows)


def _as(principal: str) -> str:
    """As which principal, where clients have one."""
    return "" if principal in ("", str(ANONYMOUS)) else f" as {principal}"


def _print_deliveries(story: RecordStory) -> None:
    if not story.delivered:
        return
    rows = [
        (
            _time(each.at_us),
            each.client_id,
            f"{each.host}{_as(each.principal)}",
            each.group,
            f"{each.from_offset} to {each.to_offset - 1}",
            each.node,
        )
        for each in story.delivered[:DELIVERIES_SHOWN]
    ]
    print_line()
    print_table(["given to a client", "client", "host", "group (inferred)", "with offsets", "by node"], rows)
    if len(story.delivered) > DELIVERIES_SHOWN:
        print_line(f"and {counted(len(story.delivered) - DELIVERIES_SHOWN, 'more answer')}; --json has them all")


def _print_commits(story: RecordStory) -> None:
    if story.committed:
        rows = [(each.group, each.offset, each.has_it, _when(each.at_us)) for each in story.committed]
        print_line()
        print_table(["group", "committed up to", "has this record", "since"], rows)


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _when(at_us: int | None) -> str | None:
    return None if at_us is None else _time(at_us)


def _time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000).astimezone().isoformat(sep=" ", timespec="milliseconds")
