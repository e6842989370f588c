"""What a log has behind the last message that was waited for: copies of messages, if anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chronik.verify.ledger import ReceivedRecord


class Tail:
    """From where each partition has been read up to, to where its log ends. A partition without an end is one that
    nothing answered for."""

    def __init__(self, ends: Mapping[int, int], reached: Mapping[int, int]) -> None:
        self._ends = ends
        self._reached = dict(reached)

    def take(self, records: Iterable[ReceivedRecord]) -> None:
        self._reached.update((record.partition, record.offset + 1) for record in records)

    @property
    def is_read(self) -> bool:
        """Up to all ends that are known."""
        return all(self._reached.get(number, end) >= end for number, end in self._ends.items())

    @property
    def unread(self) -> list[str]:
        """What was not read, in words."""
        words = []
        for number, at in sorted(self._reached.items()):
            end = self._ends.get(number)
            if end is None:
                words.append(f"partition {number} from offset {at} on, whose end is not known")
            elif at < end:
                words.append(f"partition {number} from offset {at} to {end}")
        return words
