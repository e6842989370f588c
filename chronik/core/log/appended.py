"""What became of a batch that a log was given."""

from __future__ import annotations

from typing import NamedTuple

from chronik.core.types import NO_TIMESTAMP


class Appended(NamedTuple):
    """Where a batch stands now, or stood already when it is not new."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    is_new: bool = True
