"""A run that is over: what it was, what came out, as JSON for scripts and for the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chronik.verify.compare import Comparison, PartitionCount
from chronik.verify.fates import Fate
from chronik.verify.pulse import Stall
from chronik.verify.settings import VerifySettings
from chronik.verify.verdict import FateCount, Judgement


@dataclass(frozen=True)
class VerifyResult:
    run: int
    started_at: str
    settings: VerifySettings
    topic: str
    group: str | None
    replication: int | None
    is_topic_kept: bool
    versions: Mapping[str, str]
    comparison: Comparison
    fates: Sequence[FateCount]
    errors: Mapping[str, int]
    stalls: Sequence[Stall]
    judgement: Judgement
    produce_s: float
    consume_s: float
    first_s: float | None
    seconds: float

    @property
    def lost(self) -> int:
        """The client took it for delivered, and it is gone."""
        return sum(counted.count for counted in self.fates if counted.fate in (Fate.LOST, Fate.GONE))

    def to_json(self) -> dict[str, Any]:
        """The names of the keys are a contract (docs/verify.md): new ones are added, none is renamed."""
        compared = self.comparison
        return {
            "run": self.run,
            "verdict": str(self.judgement.outcome),
            "cause": None if self.judgement.cause is None else str(self.judgement.cause),
            "summary": self.judgement.summary,
            "evidence": list(self.judgement.evidence),
            "advice": self.judgement.advice,
            "produced": compared.produced,
            "acknowledged": compared.acknowledged,
            "consumed": compared.consumed,
            "missing": compared.missing,
            "lost": self.lost,
            "duplicated": compared.duplicated,
            "redelivered": compared.redelivered,
            "written_twice": compared.written_twice,
            "reordered": compared.reordered,
            "gaps": compared.gaps,
            "unacknowledged_consumed": compared.unacknowledged_consumed,
            "foreign": compared.foreign,
            "imbalance": round(compared.imbalance, 6),
            "stalls": [_rounded(asdict(stall)) for stall in self.stalls],
            "partitions": [_partition(count) for count in compared.partitions],
            "fates": [_fate(counted) for counted in self.fates],
            "errors": dict(self.errors),
            "seconds": round(self.seconds, 3),
            "produce_seconds": round(self.produce_s, 3),
            "consume_seconds": round(self.consume_s, 3),
            "first_message_seconds": None if self.first_s is None else round(self.first_s, 3),
            "produced_per_second": _rate(compared.acknowledged, self.produce_s),
            "consumed_per_second": _rate(compared.consumed, self.consume_s),
            "topic": self.topic,
            "topic_kept": self.is_topic_kept,
            "group": self.group,
            "replication": self.replication,
            "started_at": self.started_at,
            "settings": self.settings.to_json(),
            "versions": dict(self.versions),
        }


def _partition(count: PartitionCount) -> dict[str, Any]:
    return _rounded(asdict(count)) | {
        "duplicated": count.duplicated,
        "gap_ranges": [[gap.start_offset, gap.end_offset] for gap in count.gap_ranges],
    }


def _fate(counted: FateCount) -> dict[str, Any]:
    return {
        "fate": str(counted.fate),
        "count": counted.count,
        "by_partition": {str(partition): count for partition, count in counted.by_partition.items()},
        "first_number": counted.first_number,
        "first_partition": counted.first_place.partition,
        "first_offset": counted.first_place.offset,
        "told": list(counted.told),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


def _rate(count: int, seconds: float) -> int:
    return round(count / seconds) if seconds > 0 else 0
