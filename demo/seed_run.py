"""The run that Chronik began with: 5,000 numbered messages to 3 partitions through a real client, and where each went.

Three nodes, replication factor 3, kafka-python, one bootstrap address, acks=1, max_poll_records=500, 60 seconds; each
of the nodes is the only bootstrap address in turn. `make demo` runs it. Ends with exit code 1 when a message is missing
or came twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from chronik.testing import cluster


@dataclass
class PartitionResult:
    """One partition: what was acknowledged, by offset, and how often each offset was consumed."""

    produced: int = 0
    number_at_offset: dict[int, int] = field(default_factory=dict)
    consumed: Counter[int] = field(default_factory=Counter)
    wrong: int = 0
    """Consumed at an offset that was never acknowledged, or with another content than was acknowledged there."""

    @property
    def missing(self) -> int:
        return sum(offset not in self.consumed for offset in self.number_at_offset)

    @property
    def duplicated(self) -> int:
        return sum(times - 1 for times in self.consumed.values())

    @property
    def offset_range(self) -> str:
        if not self.number_at_offset:
            return "-"
        return f"{min(self.number_at_offset):,} to {max(self.number_at_offset):,}"

    def deliver(self, offset: int, number: int) -> None:
        if self.number_at_offset.get(offset) == number:
            self.consumed[offset] += 1
        else:
            self.wrong += 1


@dataclass
class Run:
    topic: str
    partitions: list[PartitionResult]
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def consumed(self) -> int:
        """Different acknowledged messages that came back."""
        return sum(len(partition.consumed) for partition in self.partitions)

    def is_complete(self, messages: int) -> bool:
        return self.consumed == messages and not any(part.duplicated or part.wrong for part in self.partitions)


def create_topic(bootstrap: str, run: Run, replication: int) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(run.topic, len(run.partitions), replication)])
    admin.close()


def produce(bootstrap: str, run: Run, messages: int, advance: Callable[[], None]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1, enable_idempotence=False)
    sent = []
    for number in range(messages):
        partition = number % len(run.partitions)
        run.partitions[partition].produced += 1
        sent.append((number, producer.send(run.topic, value=b"%d" % number, partition=partition)))
    for number, future in sent:
        try:
            stored = future.get(timeout=30)
        except Exception as refusal:  # whatever the client calls it, it goes into the report
            run.refused[f"{type(refusal).__name__}: {refusal}"] += 1
        else:
            run.partitions[stored.partition].number_at_offset[stored.offset] = number
        advance()
    producer.close()


def consume(bootstrap: str, run: Run, messages: int, timeout_s: float, advance: Callable[[], None]) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        run.topic, bootstrap_servers=bootstrap, group_id=run.topic, auto_offset_reset="earliest", max_poll_records=500
    )
    begin = time.monotonic()
    while run.consumed < messages and time.monotonic() - begin < timeout_s:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                run.partitions[record.partition].deliver(record.offset, int(record.value))
                advance()
    run.seconds = time.monotonic() - begin
    # One more look: a message that comes twice would come now.
    for records in consumer.poll(timeout_ms=200).values():
        for record in records:
            run.partitions[record.partition].deliver(record.offset, int(record.value))
    consumer.close()


def report(console: Console, run: Run, messages: int) -> None:
    title = f"{messages:,} messages to {len(run.partitions)} partitions of {run.topic}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("partition", "produced", "acknowledged", "offsets", "consumed", "missing", "twice"):
        table.add_column(column, justify="right")
    for number, part in enumerate(run.partitions):
        cells = (part.produced, len(part.number_at_offset), part.offset_range, len(part.consumed))
        troubles = (part.missing, part.duplicated)
        style = "red" if any(troubles) or part.wrong else None
        table.add_row(str(number), *(_shown(cell) for cell in (*cells, *troubles)), style=style)
    console.print(table)
    for reason, count in run.refused.items():
        console.print(f"{count:,} not acknowledged: {reason}", style="red", markup=False)
    for number, part in enumerate(run.partitions):
        if part.wrong:
            console.print(f"partition {number}: {part.wrong:,} consumed that were never acknowledged so", style="red")
    colour = "bold green" if run.is_complete(messages) else "bold red"
    console.print(f"{run.consumed:,} of {messages:,} consumed in {run.seconds:.1f} s", style=colour, highlight=False)


def _shown(cell: int | str) -> str:
    return cell if isinstance(cell, str) else f"{cell:,}"


def run_once(bootstrap: str, run: Run, options: argparse.Namespace) -> None:
    """Make the topic, produce, consume, all through this one address, with bars that show how far it is."""
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        create_topic(bootstrap, run, min(3, options.nodes))
        producing = progress.add_task("produced", total=options.messages)
        produce(bootstrap, run, options.messages, lambda: progress.advance(producing))
        consuming = progress.add_task("consumed", total=options.messages)
        consume(bootstrap, run, options.messages, options.timeout, lambda: progress.advance(consuming))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="for consuming")
    options = parser.parse_args()
    console = Console()
    runs = []
    begin = time.monotonic()
    with cluster(nodes=options.nodes) as started:
        console.print(
            f"{options.nodes} nodes in {time.monotonic() - begin:.1f} s: {started.bootstrap}", highlight=False
        )
        for node_id, node in started.nodes.items():
            run = Run(f"seed-run-{node_id}", [PartitionResult() for _ in range(options.partitions)])
            run_once(node.bootstrap, run, options)
            console.print(f"\nthrough node {node_id}, {node.bootstrap}, only:", highlight=False)
            report(console, run, options.messages)
            runs.append(run)
    return 0 if all(run.is_complete(options.messages) for run in runs) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
