"""`chronik consume`: a topic's messages on standard output, with or without a group."""

from __future__ import annotations

import io
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, TopicName, example
from chronik.cli.output import counted, print_note
from chronik.client.admin import ClusterAdmin
from chronik.client.connecting import client_settings, explain, plain_errors
from chronik.client.errors import ChronikError
from chronik.inspect.record_format import DEFAULT_FORMAT, Layout, ShownRecord, as_json_line
from chronik.inspect.times import parse_time_ms
from chronik.shell.interrupts import Interrupts

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

EXAMPLE = example(
    "chronik consume orders --from-beginning --timeout 5",
    "chronik consume orders --group billing --format '{partition}:{offset} {key}={value}'",
    "chronik consume orders --offset 2026-01-31T12:30:00 --json",
)
BATCH_MAX = 500
# Short, so that Ctrl-C is heard soon.
POLL_S = 0.2


def consume(
    topic: TopicName,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the oldest message, not only what comes from now on.")
    ] = False,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="Read as a member of it, and commit.")] = None,
    max_messages: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only this partition.")] = None,
    offset: Annotated[
        str | None, typer.Option(metavar="N|TIME", help="From this offset, or from an ISO 8601 time.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="End when nothing came for so many seconds.")
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format", metavar="TEXT", help="With {topic} {partition} {offset} {timestamp} {key} {value} {headers}."
        ),
    ] = DEFAULT_FORMAT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each message.")] = False,
) -> None:
    """Print messages as they come, until Ctrl-C, --max-messages or --timeout."""
    if group is not None and (partition is not None or offset is not None):
        raise ChronikError(
            "a group decides itself what and from where it reads", "use `chronik group reset` to move it"
        )
    if from_beginning and offset is not None:
        raise ChronikError("--from-beginning and --offset contradict each other", "leave one out")
    layout = Layout(format_)
    start = _Start.parse(offset, from_beginning)
    cluster = ClusterAdmin(bootstrap)
    partitions = [state.partition for state in cluster.topic(topic).partitions]
    if partition is not None and partition not in partitions:
        raise ChronikError(f"topic {topic} has no partition {partition}", f"it has 0 to {len(partitions) - 1}")
    with plain_errors(bootstrap):
        consumer = _open(bootstrap, topic, group, [partition] if partition is not None else partitions, start)
    printer = _Printer(consumer, bootstrap, layout, as_json, is_committing=group is not None)
    interrupts = Interrupts()
    interrupts.listen()
    try:
        printer.run(interrupts, max_messages, timeout)
    finally:
        consumer.close()
    if sys.stderr.isatty():
        print_note(f"consumed {counted(printer.printed, 'message')}")


class _Start:
    """Where reading begins: an offset (or librdkafka's number for an end of the log), or a time."""

    def __init__(self, offset: int, time_ms: int | None = None) -> None:
        self.offset = offset
        self.time_ms = time_ms

    @classmethod
    def parse(cls, text: str | None, from_beginning: bool) -> _Start:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

        if text is None:
            return cls(OFFSET_BEGINNING if from_beginning else OFFSET_END)
        return cls(int(text)) if text.isdecimal() else cls(OFFSET_END, parse_time_ms(text))


def _open(bootstrap: str, topic: str, group: str | None, partitions: list[int], start: _Start) -> Consumer:
    """A consumer that is placed. Without a group nothing is joined or committed; the client wants a name still."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings: dict[str, Any] = client_settings(bootstrap) | {
        "group.id": group or "chronik-cli",
        "enable.auto.commit": group is not None,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest" if start.offset == OFFSET_BEGINNING else "latest",
        "enable.partition.eof": False,
        "fetch.wait.max.ms": 100,
    }
    if group is None and start.offset >= 0:
        settings["auto.offset.reset"] = (
            "error"  # an offset that is not there is the user's mistake, not a reason to jump
        )
    consumer = Consumer(settings)
    if group is not None:
        consumer.subscribe([topic])
        return consumer
    places = [TopicPartition(topic, number, start.offset) for number in partitions]
    if start.time_ms is not None:
        asked = [TopicPartition(topic, number, start.time_ms) for number in partitions]
        places = consumer.offsets_for_times(asked, timeout=10)
    consumer.assign(places)
    return consumer


class _Printer:
    """Takes messages and prints them; with a group, only what was printed is committed."""

    def __init__(self, consumer: Consumer, bootstrap: str, layout: Layout, as_json: bool, is_committing: bool) -> None:
        self.printed = 0
        self._consumer = consumer
        self._bootstrap = bootstrap
        self._line = as_json_line if as_json else layout.line
        self._is_committing = is_committing
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8

    def run(self, interrupts: Interrupts, messages_max: int | None, timeout_s: float | None) -> None:
        last_message_at = time.monotonic()
        while not interrupts.is_ending and (messages_max is None or self.printed < messages_max):
            wanted = BATCH_MAX if messages_max is None else min(BATCH_MAX, messages_max - self.printed)
            with plain_errors(self._bootstrap):
                messages = self._consumer.consume(wanted, POLL_S)
            if messages:
                self._print(messages)
                last_message_at = time.monotonic()
            elif timeout_s is not None and time.monotonic() - last_message_at >= timeout_s:
                return

    def _print(self, messages: list[Message]) -> None:
        for message in messages:
            self._raise_if_failed(message)
            sys.stdout.write(self._line(_record(message)) + "\n")
            self.printed += 1
        sys.stdout.flush()
        if self._is_committing:
            for message in messages:
                self._consumer.store_offsets(message)

    def _raise_if_failed(self, message: Message) -> None:
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            return
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise ChronikError(
                f"partition {message.partition()} has no such offset",
                "`chronik topic describe` shows the offsets it has",
            )
        raise explain(error, self._bootstrap)


def _record(message: Message) -> ShownRecord:
    kind, timestamp_ms = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return ShownRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms if kind else None,
        message.key(),
        message.value(),
        headers,
    )
