"""What a node does by itself now and then to its logs."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import BOOLEAN, LONG, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class UpkeepConfig(Section):
    """What a node does by itself now and then to its logs."""

    log_retention_check_interval_ms: int = setting(LONG, 300_000, "How often old segments are looked for.", at_least(1))
    log_cleaner_enable: bool = setting(BOOLEAN, True, "Whether compacted topics are compacted.")
    log_cleaner_backoff_ms: int = setting(
        LONG, 15_000, "How long the log cleaner rests between two looks at the compacted logs; 100 ms at least.",
        at_least(0), dynamic=True,
    )  # fmt: skip
