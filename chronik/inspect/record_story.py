"""A record's story together with the record: what `chronik where` and the console show."""

from __future__ import annotations

import msgspec

from chronik.inspect.find_record import At
from chronik.inspect.gather_record import Gatherer
from chronik.inspect.record_format import ShownRecord
from chronik.trace.inspections import RecordPlace
from chronik.trace.story import RecordStory, tell


def story_of(gatherer: Gatherer, place: At) -> tuple[RecordStory, ShownRecord | None]:
    """What is known of a record, and the record itself where a consumer can be given it."""
    known = gatherer.known(place.partition, place.offset)
    story = tell(gatherer.topic, place.partition, place.offset, known)
    if story.place is not RecordPlace.HERE or not story.is_below_watermark:
        return story, None
    reading = gatherer.read(place.partition, place.offset)
    if reading.record is not None:
        return story, reading.record
    is_thinned = story.batch is not None and story.batch.is_thinned  # which records are left, its header does not say
    if reading.is_passed_over and is_thinned:
        words = "Compacted away: its batch is still there, but a later record of the same key has replaced this one."
        story = msgspec.structs.replace(story, place=RecordPlace.COMPACTED, summary=words)
    elif reading.problem is not None:
        words = f"the record itself: it could not be read now ({reading.problem})"
        if is_thinned:
            words += ". Compaction took some records of its batch; whether this one is there is not known"
            summary = "Not known: its batch is in the log, but compaction took some of its records."
            story = msgspec.structs.replace(story, place=RecordPlace.NOT_KNOWN, summary=summary)
        story = msgspec.structs.replace(story, unknown=(*story.unknown, words))
    return story, None
