"""The transactions of a partition that hold back its last stable offset (KIP-98).

One that is open does, and one that has ended still does until its marker is below the high watermark: a new leader
might not have the marker, and the last stable offset would move back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction with data in this partition, whose marker is in the log now."""

    producer_id: int
    first_offset: int  # of its first batch here
    last_offset: int  # of its marker
    last_stable_offset: int  # below it, every transaction had ended when this one did
    is_commit: bool


class UndecidedTransactions:
    """By first offset, the earliest first: they begin in the order of the log."""

    __slots__ = ("_ended", "_open")

    def __init__(self, open_transactions: Iterable[tuple[int, int]] = ()) -> None:
        """`open_transactions`: first offset and producer id of each."""
        # Ordered dicts, since the first of a dict that loses its first ones again and again takes long to find.
        self._open: OrderedDict[int, int] = OrderedDict(sorted(open_transactions))
        self._ended: OrderedDict[int, int] = OrderedDict()  # the offset of the marker

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def earliest_open(self) -> tuple[int, int] | None:
        """Where the first that is open begins, and its producer."""
        return next(iter(self._open.items()), None)

    def begin(self, first_offset: int, producer_id: int) -> None:
        self._open[first_offset] = producer_id

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Its marker is in the log. Returns the last stable offset as soon as that marker is replicated."""
        self._open.pop(first_offset, None)
        self._ended[first_offset] = marker_offset
        return next(iter(self._open), marker_offset + 1)

    def forget_decided(self, high_watermark: int) -> None:
        """What a marker below the high watermark has ended is decided for good. To be said whenever that moves: where
        nothing asks for the last stable offset, as on a follower, they would pile up."""
        ended = self._ended
        while ended:
            first_offset, marker_offset = next(iter(ended.items()))
            if marker_offset >= high_watermark:
                break
            del ended[first_offset]

    @property
    def ended_count(self) -> int:
        """How many have ended and are not decided yet, as far as is known."""
        return len(self._ended)

    def first_undecided(self, high_watermark: int) -> int | None:
        """Where the earliest of them begins."""
        self.forget_decided(high_watermark)
        ended = self._ended
        if not self._open and not ended:
            return None
        # Those that have ended are in the order of their markers.
        return min(next(iter(self._open), high_watermark), min(ended, default=high_watermark))
