"""The result file: every figure of every round, with the machine, the versions and the commit they belong to."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

FORMAT = 2
ROOT = Path(__file__).resolve().parents[2]
RESULTS_DIR = ROOT / "bench-results"
LOOK_S = 3.0


@dataclass
class Measured:
    """One figure of one line of the table, for one system, with its value in each round."""

    row: str
    line: str
    figure: str
    system: str
    values: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    """Which round each value is of: a case that failed has none."""
    median: float = 0.0
    spread: float = 0.0
    """(largest - smallest) / median."""
    is_goal_met: bool | None = None
    is_longest: bool = False
    """Then `median` is the largest value."""

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is, whatever was measured."""
        return self.row, self.line, self.figure

    def take(self, round_number: int, value: float) -> None:
        self.rounds.append(round_number)
        self.values.append(value)
        self.summarize()

    def summarize(self) -> None:
        self.median = max(self.values) if self.is_longest else statistics.median(self.values)
        self.spread = (max(self.values) - min(self.values)) / self.median if self.median else 0.0

    def by_round(self) -> dict[int, float]:
        """One value of each round: where a round has several, what is taken of all is taken of those."""
        of: dict[int, list[float]] = {}
        for number, value in zip(self.rounds, self.values, strict=True):
            of.setdefault(number, []).append(value)
        return {number: max(each) if self.is_longest else statistics.median(each) for number, each in of.items()}


@dataclass
class Ratio:
    """Chronik's figure divided by the peer's: of each round, and the median of those."""

    row: str
    line: str
    figure: str
    peer: str
    values: list[float]
    median: float
    spread: float
    is_goal_met: bool | None = None
    is_moonshot_met: bool | None = None


@dataclass
class Series:
    """Something over time, in the first round that has it."""

    row: str
    line: str
    system: str
    points: list[tuple[float, float]]


@dataclass
class Result:
    """One run."""

    scale: str
    rounds: int
    started: str
    machine: dict[str, Any]
    versions: dict[str, str]
    commit: str
    seconds: float = 0.0
    measured: list[Measured] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Cases that could not be measured, with what was wrong."""
    left_out: list[str] = field(default_factory=list)
    """What was not tried, and why."""
    format: int = FORMAT

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> Result:
    """Raises ValueError for a file that is none, or of another format."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise ValueError(f"{path} is not a result of the bench: {problem}") from problem
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise ValueError(f"{path} is not a result of format {FORMAT}")
    measured = [Measured(**each) for each in fields.pop("measured")]
    ratios = [Ratio(**each) for each in fields.pop("ratios")]
    series = [Series(**each) for each in fields.pop("series")]
    for each in series:
        each.points = [(at, value) for at, value in each.points]
    return Result(**fields, measured=measured, ratios=ratios, series=series)


def new_result(scale: str, rounds: int, scratch: Path, systems: dict[str, str]) -> Result:
    now = datetime.datetime.now(datetime.UTC)
    return Result(scale, rounds, now.isoformat(timespec="seconds"), _machine(scratch), _versions(systems), _commit())


def result_path(result: Result) -> Path:
    moment = result.started.replace(":", "").replace("-", "").removesuffix("+0000")
    return RESULTS_DIR / f"{moment}-{result.scale}.json"


def newest() -> Path | None:
    return max(RESULTS_DIR.glob("*.json"), default=None, key=lambda path: path.stat().st_mtime)


def _versions(systems: dict[str, str]) -> dict[str, str]:
    java = {"java": _java_version()} if "kafka" in systems else {}
    return (
        systems
        | java
        | {
            "python": platform.python_version(),
            "confluent-kafka": str(confluent_kafka.version()),
            "librdkafka": str(confluent_kafka.libversion()[0]),
            "uvloop": version("uvloop"),
        }
    )


def _java_version() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    quoted = told.split('"')
    return quoted[1] if len(quoted) > 2 else told.strip() or "unknown"


def _machine(scratch: Path) -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "filesystem": _filesystem(scratch),
        # How many cores others use. The report says so when it is high: such figures are no good to publish.
        "load_before": round(psutil.cpu_percent(LOOK_S) * (os.cpu_count() or 1) / 100, 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _filesystem(directory: Path) -> str:
    """The kind of the file system: on one in memory, a sync costs nothing and says nothing."""
    mounts = [part for part in psutil.disk_partitions(all=True) if directory.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def _commit() -> str:
    """The commit, with a plus when the tree has changes."""
    try:
        head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, check=True)
        changes = subprocess.run(
            ["git", "status", "--porcelain", "--", "chronik"], cwd=ROOT, capture_output=True, check=True
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.decode().strip() + ("+" if changes.stdout.strip() else "")
