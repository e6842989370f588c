"""Whether bytes that were read are the batches that were planned, before they are served."""

from __future__ import annotations

from chronik.core.errors import Corrupt
from chronik.core.log.epochs import Epochs
from chronik.core.log.scan import sound_batches
from chronik.core.log.segment import Slice
from chronik.core.types import Buffer


def check_slice(plan: Slice, content: Buffer, epochs: Epochs, start_offset: int, *, has_gaps: bool) -> None:
    """Raise Corrupt unless these bytes are the batches of the plan, as they were written under these epochs."""
    where = plan.file.path
    if len(content) != plan.length:
        raise Corrupt(where, f"{plan.length} bytes wanted at {plan.position}, {len(content)} are there")
    next_offset = plan.start_offset
    for position, header in sound_batches(content, where, plan.position, plan.start_offset):
        # Below the log start, which may have moved on since this was planned, epochs are forgotten.
        known_offset = max(header.base_offset, start_offset)
        if known_offset <= header.last_offset and header.leader_epoch != epochs.at(known_offset):
            raise Corrupt(f"{where} at {position}", f"leader epoch {header.leader_epoch} is not of this offset")
        next_offset = header.next_offset
    if next_offset > plan.next_offset or (next_offset < plan.next_offset and not has_gaps):
        raise Corrupt(where, f"ends at offset {next_offset} where {plan.next_offset} was planned")
