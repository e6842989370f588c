"""A ledger, and what was received of it: all, but for faults that are planted at random and remembered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RUN = 100  # records of a batch, in the ledger


@dataclass(frozen=True)
class Planted:
    """Where the two are, and the offsets of each kind of fault, by partition."""

    ledger: Path
    received: Path
    lost: dict[int, set[int]]
    duplicated: dict[int, set[int]]
    reordered: dict[int, set[int]]
    unexpected: dict[int, set[int]]


def plant(folder: Path, records: int, partitions: int, share: float, seed: int = 5) -> Planted:
    """Records of the log are received one row each, in order, except for `share` of them of each kind of fault."""
    chance = np.random.default_rng(seed)
    faults: dict[str, dict[int, set[int]]] = {"lost": {}, "duplicated": {}, "reordered": {}, "unexpected": {}}
    (folder / "ledger").mkdir()
    (folder / "received").mkdir()
    for partition in range(partitions):
        count = records // partitions + (partition < records % partitions)
        _write_ledger(folder / "ledger" / f"{partition}.parquet", partition, count)
        # Every fifth offset, so that no fault lies beside another and each is what it was planted as.
        chosen = chance.choice(np.arange(5, count - 5, 5), max(round(count * share), 1) * 3, replace=False)
        lost, duplicated, swapped = np.split(chosen, 3)
        order = np.arange(count)
        order[swapped], order[swapped + 1] = swapped + 1, swapped.copy()  # this one is given after the next
        order = np.insert(order, np.searchsorted(np.arange(count), duplicated) + 2, duplicated)
        order = order[~np.isin(order, lost)]
        strangers = np.arange(count, count + 3)  # nobody was told of these
        order = np.concatenate((order, strangers))
        table = pa.table(
            {
                "topic": pa.array(["planted"] * len(order)),
                "partition": pa.array(np.full(len(order), partition, np.int32)),
                "offset": pa.array(order),
                "position": pa.array(np.arange(len(order))),
            }
        )
        pq.write_table(table, folder / "received" / f"{partition}.parquet")
        kinds = zip(faults, (lost, duplicated, swapped, strangers), strict=True)
        for kind, offsets in kinds:
            faults[kind][partition] = set(offsets.tolist())
    return Planted(folder / "ledger", folder / "received", **faults)


def _write_ledger(path: Path, partition: int, count: int) -> None:
    starts = np.arange(0, count, RUN)
    table = pa.table(
        {
            "topic": pa.array(["planted"] * len(starts)),
            "partition": pa.array(np.full(len(starts), partition, np.int32)),
            "start_offset": pa.array(starts),
            "end_offset": pa.array(np.minimum(starts + RUN, count)),
            "producer": pa.array([f"p{number % 2}" for number in range(len(starts))]),
            "number": pa.array(starts),
        }
    )
    pq.write_table(table, path)


def plant_runs(folder: Path, records: int, partitions: int, share: float, seed: int = 5) -> dict[str, int]:
    """The same for very many records: what was received is written as runs, too. Returns how many of each fault."""
    chance = np.random.default_rng(seed)
    (folder / "ledger").mkdir(parents=True)
    (folder / "received").mkdir()
    planted = dict.fromkeys(("lost", "duplicated", "reordered"), 0)
    for partition in range(partitions):
        count = records // partitions
        _write_ledger(folder / "ledger" / f"{partition}.parquet", partition, count)
        chosen = np.unique(chance.integers(1, count // 5 - 1, round(count * share) * 3)) * 5
        lost, duplicated, swapped = np.array_split(chance.permutation(chosen), 3)
        starts = np.unique(np.concatenate((np.arange(0, count, RUN), *(chosen + step for step in range(3)))))
        ends: Any = np.append(starts[1:], count)
        order = np.arange(len(starts))
        late = np.searchsorted(starts, swapped)
        order[late], order[late + 1] = late + 1, late.copy()
        again = np.searchsorted(starts, duplicated)
        order = np.insert(order, again + 1, again)
        order = order[~np.isin(order, np.searchsorted(starts, lost))]
        sizes = (ends - starts)[order]
        table = pa.table(
            {
                "topic": pa.array(["planted"] * len(order)),
                "partition": pa.array(np.full(len(order), partition, np.int32)),
                "start_offset": pa.array(starts[order]),
                "end_offset": pa.array(ends[order]),
                "position": pa.array(np.cumsum(sizes) - sizes),
            }
        )
        pq.write_table(table, folder / "received" / f"{partition}.parquet")
        for kind, offsets in zip(planted, (lost, duplicated, swapped), strict=True):
            planted[kind] += len(offsets)
    return planted
