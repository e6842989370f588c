"""What became of a message that was sent and not consumed. Pure: over what the log, the nodes and the trace said."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chronik.trace.events import AnyEvent, EventsLost, FetchAnswered, ProduceAppended, TraceBegan
from chronik.verify.ledger import UNKNOWN, Ledger, LedgerPlace


class Fate(StrEnum):
    """From bad to better."""

    LOST = "acknowledged and lost"
    LOST_OR_NOT_VISIBLE = "lost or not visible yet"  # acknowledged; no node said whether the log goes that far
    GONE = "sent with acks=0, and not in the log"  # refused or lost: acks=0 has no response
    NEVER_ACCEPTED = "never accepted"
    NOT_ACCEPTED_OR_NOT_VISIBLE = "never accepted, or not visible yet"  # no node said whether the log goes that far
    NOT_VISIBLE = "accepted but not visible"
    NOT_FETCHED = "visible but not fetched"
    NOT_GIVEN = "fetched but not given to the application"
    NOT_CONSUMED = "visible but not consumed"  # fetched or not: no trace says
    NOT_KNOWN = "not known: the log could not be read"


Interval = tuple[int, int]


@dataclass
class MissingSearch:
    """What the search came back with. Offsets by partition."""

    places: dict[int, LedgerPlace] = field(default_factory=dict)
    """Where the second reader found missing messages, by their number."""
    read_to: dict[int, int] = field(default_factory=dict)
    """It read everything below this."""
    watermarks: Mapping[int, int] = field(default_factory=dict)
    next_offsets: Mapping[int, int] = field(default_factory=dict)
    """Where the leader's log ends; of a Kafka that does not tell, nothing."""
    served: Mapping[int, Sequence[Interval]] | None = None
    """What the consumer was sent, sorted and apart from each other; None when it was not traced."""

    def is_served(self, place: LedgerPlace) -> bool:
        intervals = (self.served or {}).get(place.partition, ())
        at = bisect_right(intervals, (place.offset, 1 << 62)) - 1
        return at >= 0 and intervals[at][0] <= place.offset < intervals[at][1]

    def is_read_whole(self, partition: int) -> bool:
        end = self.watermarks.get(partition)
        return end is not None and self.read_to.get(partition, 0) >= end


def served_to(
    client_id: str, producer_id: str, topic: str, events: Sequence[AnyEvent]
) -> dict[int, list[Interval]] | None:
    """Which offsets a client was sent, by partition. None when the events do not show that they go back to before its
    first fetch, without a hole since: then nothing follows from a fetch that is not among them. What they begin with
    is known by the producer, which was done before any consumer began."""
    wrote: int | None = None
    for number, event in enumerate(events):
        if isinstance(event, ProduceAppended) and (event.topic, event.client_id) == (topic, producer_id):
            wrote = number
        elif isinstance(event, FetchAnswered) and (event.topic, event.client_id) == (topic, client_id):
            break
    if wrote is None or any(isinstance(event, EventsLost | TraceBegan) for event in events[wrote:]):
        return None
    sent: dict[int, list[Interval]] = {}
    for event in events:
        if not isinstance(event, FetchAnswered) or (event.topic, event.client_id) != (topic, client_id):
            continue
        if event.to_offset > event.offset:
            sent.setdefault(event.partition, []).append((event.offset, event.to_offset))
    return {partition: _joined(intervals) for partition, intervals in sent.items()}


def _joined(intervals: list[Interval]) -> list[Interval]:
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def fates(numbers: Iterable[int], ledger: Ledger, found: MissingSearch) -> dict[int, Fate]:
    """Of each of these messages, which were sent and not consumed."""
    # Above the watermark it cannot be read which messages they are, only how many.
    hidden = {
        partition: max(end - found.watermarks.get(partition, end), 0) for partition, end in found.next_offsets.items()
    }
    decided: dict[int, Fate] = {}
    unsure: list[int] = []
    for number in numbers:
        place = found.places.get(number)
        if place is not None:
            decided[number] = _unconsumed(place, found)
        elif ledger.is_acknowledged(number) and ledger.offsets[number] != UNKNOWN:
            decided[number] = fate = _acknowledged(ledger.place(number), found)
            if fate is Fate.NOT_VISIBLE:
                hidden[ledger.partitions[number]] -= 1
        else:
            unsure.append(number)
    for number in unsure:
        decided[number] = _without_offset(number, ledger, found, hidden)
    return dict(sorted(decided.items()))


def _acknowledged(place: LedgerPlace, found: MissingSearch) -> Fate:
    """At this offset, as acknowledged to its producer; the second reader did not find it."""
    watermark = found.watermarks.get(place.partition)
    if watermark is None:
        return Fate.NOT_KNOWN
    if place.offset >= watermark:
        end = found.next_offsets.get(place.partition)
        if end is None:
            return Fate.LOST_OR_NOT_VISIBLE
        return Fate.LOST if place.offset >= end else Fate.NOT_VISIBLE
    if place.offset < found.read_to.get(place.partition, 0):
        return Fate.LOST  # the log has something else there
    return _unconsumed(place, found)


def _unconsumed(place: LedgerPlace, found: MissingSearch) -> Fate:
    """It is in the log, and consumers may read it."""
    if found.served is None:
        return Fate.NOT_CONSUMED
    return Fate.NOT_GIVEN if found.is_served(place) else Fate.NOT_FETCHED


def _without_offset(number: int, ledger: Ledger, found: MissingSearch, hidden: dict[int, int]) -> Fate:
    """No response said where it would be, and the second reader did not find it."""
    partition = ledger.partitions[number]
    candidates = [partition] if partition != UNKNOWN else list(found.read_to)  # all that there are
    if not candidates or not all(found.is_read_whole(candidate) for candidate in candidates):
        return Fate.NOT_KNOWN
    for candidate in candidates:
        if hidden.get(candidate, 0) > 0:
            hidden[candidate] -= 1
            return Fate.NOT_VISIBLE
    is_end_known = all(candidate in found.next_offsets for candidate in candidates)
    if not ledger.is_acknowledged(number):
        return Fate.NEVER_ACCEPTED if is_end_known else Fate.NOT_ACCEPTED_OR_NOT_VISIBLE
    if not ledger.is_answered:
        return Fate.GONE if is_end_known else Fate.NOT_ACCEPTED_OR_NOT_VISIBLE
    return Fate.LOST if is_end_known else Fate.LOST_OR_NOT_VISIBLE
