"""`chronik produce`: lines of text, or a generated load, into a topic, with a report of what became of them."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName, example
from chronik.cli.output import byte_size, counted, print_json, print_line, print_note, print_table, progress
from chronik.cli.values import parse_pairs
from chronik.client.admin import ClusterAdmin
from chronik.client.delivery import Tally
from chronik.client.errors import ChronikError
from chronik.client.message_sender import MessageSender, MessageTarget, generated
from chronik.shell.interrupts import Interrupts

EXAMPLE = example(
    "echo 'k1:hello' | chronik produce orders --key-separator :",
    "chronik produce orders --count 100000 --size 1000 --acks 1",
)
EXIT_NOT_ACKNOWLEDGED = 1
# Fewer say how fast a person types, or how long it takes to connect.
MESSAGES_FOR_A_SPEED = 1000


class AcksOption(StrEnum):
    """How many replicas must have a message before it counts as taken."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: TopicName,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What is before it in a line is the key.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For every message; repeat for more.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only to this partition.")] = None,
    acks: Annotated[
        AcksOption, typer.Option(help="Which replicas must have a message: 0 none, 1 its leader, all those in sync.")
    ] = AcksOption.ALL,
    compression: Annotated[Compression, typer.Option(help="How batches are packed.")] = Compression.NONE,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read lines from it instead of standard input.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Generate so many messages instead.")] = None,
    size: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Size of a generated message.")] = 100,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Give a message up after so many seconds.")
    ] = 30.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Produce each line as a message. Reports the offsets, and what was not acknowledged and why (then exit code 1)."""
    if count is not None and (file is not None or key_separator is not None):
        raise ChronikError("--count generates messages and reads no lines", "leave out --file and --key-separator")
    headers = [(key, value.encode()) for key, value in parse_pairs("--header", header or []).items()]
    lines = None if count is not None else _open_lines(file)
    _check_topic(bootstrap, topic, partition)
    sender = MessageSender(
        bootstrap, MessageTarget(topic, partition, tuple(headers)), acks.value, compression.value, timeout
    )
    started = time.monotonic()
    interrupts = Interrupts()
    interrupts.listen()
    if lines is None:
        _send_generated(sender, count or 0, size, interrupts)
    else:
        _send_lines(sender, lines, key_separator, interrupts)
    if interrupts.is_ending:
        print_note("stopped; waiting for what is under way")
    with progress("waiting for acknowledgements", sender.waiting) as advance:
        sender.wait_until_settled(advance)
    _report(topic, sender.tally, time.monotonic() - started, acks, "message" if lines is None else "line", as_json)
    if sender.tally.failed:
        raise typer.Exit(EXIT_NOT_ACKNOWLEDGED)


def _open_lines(file: Path | None) -> BinaryIO:
    if file is None:
        if sys.stdin.isatty():
            print_note("type messages, one a line; Ctrl-D ends")
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise ChronikError(f"cannot read {file}: {error.strerror}", "check --file") from None


def _check_topic(bootstrap: str, topic: str, partition: int | None) -> None:
    partitions = len(ClusterAdmin(bootstrap).topic(topic).partitions)
    if partition is not None and partition >= partitions:
        raise ChronikError(f"topic {topic} has no partition {partition}", f"it has 0 to {partitions - 1}")


def _send_lines(sender: MessageSender, lines: BinaryIO, key_separator: str | None, interrupts: Interrupts) -> None:
    separator = None if key_separator is None else key_separator.encode()
    # A bar would draw over what is typed.
    with progress("produced", None, is_wanted=not lines.isatty()) as advance:
        for number, line in enumerate(iter(lambda: interrupts.read_line(lines), b""), start=1):
            value = line.rstrip(b"\r\n")
            if separator is None:
                sender.send(number, None, value)
            else:
                key, found, rest = value.partition(separator)
                if found:
                    sender.send(number, key, rest)
                else:
                    sender.not_sent(number, f"no {key_separator!r} in the line")
            advance(1)


def _send_generated(sender: MessageSender, count: int, size: int, interrupts: Interrupts) -> None:
    with progress("produced", count) as advance:
        for number, value in enumerate(generated(count, size), start=1):
            sender.send(number, None, value)
            if interrupts.is_ending:
                break
            if number % 1000 == 0:
                advance(1000)


def _report(topic: str, tally: Tally, seconds: float, acks: AcksOption, noun: str, as_json: bool) -> None:
    if as_json:
        print_json({"topic": topic, "seconds": round(seconds, 3)} | tally.as_json())
        return
    word = "sent" if acks is AcksOption.NONE else "acknowledged"
    if tally.partitions:
        rows = [
            (number, part.acknowledged, str(part.offsets) or "unknown: acks=0 asks for no answer")
            for number, part in sorted(tally.partitions.items())
        ]
        print_table(["partition", word, "offsets"], rows)
    speed = f" ({tally.acknowledged / seconds:,.0f} messages/s, {byte_size(tally.sent_bytes / seconds)}/s)"
    result = f"{tally.acknowledged:,} of {counted(tally.sent, 'message')} {word} in {seconds:.2f} s"
    print_line(result + (speed if tally.sent >= MESSAGES_FOR_A_SPEED else ""))
    for failure in tally.failures.values():
        where = ", ".join(f"{position:,}" for position in sorted(failure.first_positions))
        more = ", ..." if failure.messages > len(failure.first_positions) else ""
        print_line(f"{counted(failure.messages, 'message')} not acknowledged: {failure.reason} ({noun} {where}{more})")
