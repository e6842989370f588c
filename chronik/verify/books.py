"""What was acknowledged to a run's producer and given to its consumer, kept as runs of offsets for an audit: JSON
lines, as docs/pipeline-audit.md says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chronik.verify.errors import RunCannotStart
from chronik.verify.ledger import ACKNOWLEDGED, DeliveredMessages, Ledger, LedgerPlace


@dataclass(frozen=True)
class Books:
    """Where to write them; None: nowhere."""

    ledger: Path | None = None
    received: Path | None = None

    def check(self) -> None:
        """Before the run: a file that cannot be written is found out too late otherwise. Raises RunCannotStart."""
        for path in (self.ledger, self.received):
            if path is not None:
                _write(path, ())

    def write(self, topic: str, producer: str, ledger: Ledger, delivered: DeliveredMessages) -> None:
        if self.ledger is not None:
            rows = runs(topic, acknowledged(ledger), "number")
            _write(self.ledger, ({**row, "producer": producer} for row in rows))
        if self.received is not None:
            given = map(LedgerPlace, delivered.partitions, delivered.offsets)
            _write(self.received, runs(topic, given, "position"))


def acknowledged(ledger: Ledger) -> Iterator[LedgerPlace]:
    """Where messages are, as acknowledged to the producer, in the order of sending."""
    places = (ledger.place(number) for number, state in enumerate(ledger.states) if state == ACKNOWLEDGED)
    return (place for place in places if place.partition >= 0 and place.offset >= 0)


def runs(topic: str, places: Iterable[LedgerPlace], counted: str) -> Iterator[dict[str, Any]]:
    """Places that follow one another in their partition as one row; `counted` is the column that has their order."""
    begun: dict[int, list[int]] = {}  # by partition: first offset, end offset, count of those before
    for partition, offset in places:
        run = begun.get(partition)
        if run is not None and run[1] == offset:
            run[1] += 1
            continue
        before = 0
        if run is not None:
            yield _row(topic, partition, run, counted)
            before = run[2] + run[1] - run[0]
        begun[partition] = [offset, offset + 1, before]
    for partition, run in sorted(begun.items()):
        yield _row(topic, partition, run, counted)


def _row(topic: str, partition: int, run: list[int], counted: str) -> dict[str, Any]:
    start, end, before = run
    return {"topic": topic, "partition": partition, "start_offset": start, "end_offset": end, counted: before}


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
    except OSError as problem:
        raise RunCannotStart(
            f"{path} cannot be written: {problem.strerror or problem}", "give another file"
        ) from problem
