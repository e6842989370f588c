"""What the product says of the world through the proxy, held against the world. Each function asks one question, and
returns what was said that is not so; 'not known' is always right."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

from chronik.client.admin import ClusterAdmin
from chronik.client.connecting import parse_addresses
from chronik.client.connection import ConnectionFailed
from chronik.client.errors import ChronikError
from chronik.client.options import ClientOptions
from chronik.client.request import NoAnswer
from chronik.inspect.find_record import At, SearchResult, by_key, by_sequence
from chronik.inspect.gather_record import Gatherer
from chronik.inspect.group_offsets import existing_group, progress_rows, total_lag
from chronik.inspect.live_model import RateHistory
from chronik.inspect.live_source import Looker
from chronik.inspect.record_story import story_of
from chronik.inspect.reporting import SilentReporter
from chronik.inspect.topic_rows import messages as counted_messages
from chronik.inspect.topic_rows import partition_row
from chronik.inspect.trace_history import TraceHistory
from chronik.inspect.watermarks import monitor
from chronik.pipeline.topics import client as pipeline_client
from chronik.pipeline.topics.holdings import bounds_of, commits_of
from chronik.pipeline.topics.options import EARLIEST, LATEST, Everywhere, ReadOptions, Topics
from chronik.pipeline.topics.plan import OffsetRange
from chronik.pipeline.topics.reading import read_range
from chronik.trace.inspections import RecordPlace as Standing
from chronik.trace.stalls import find
from chronik.trace.story import RecordStory
from chronik.verify.clients.choice import open_client
from chronik.verify.cluster import VerifyCluster as VerifiedCluster
from chronik.verify.errors import RunCannotStart
from chronik.verify.fates import Fate, fates
from chronik.verify.ledger import Ledger, LedgerPlace
from chronik.verify.search import Scene, search
from chronik.verify.settings import ClientName
from tests.truth.world import PARTITIONS, World

UNKNOWN_PLACES = {Standing.NOT_KNOWN, Standing.NO_COPY, Standing.UNREADABLE}
NOWHERE = ("has no partition", "no record in", "there is no topic", "unknown topic", "never accepted")
NOT_SO = ("is not traced", "no Chronik", "nothing of this topic")
MISSING_SEQUENCE = 10_000
PATIENCE_MS = 4_000
DECODING = threading.Lock()  # numba's threads serve one caller at a time, as in a Spark task

Question = Callable[[str, World, random.Random], Iterator[str]]


def where_an_offset_is(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    place = LedgerPlace(dice.randrange(PARTITIONS), dice.randrange(world.end + 3))
    try:
        gatherer = Gatherer(ClusterAdmin(bootstrap), world.topic)
        story, record = story_of(gatherer, At(*place))
    except ChronikError as refused:
        yield from _refused(str(refused))
        return
    yield from _story(story, world, place)
    if record is not None and record.value != world.messages.value(world.number_at(place)):
        yield f"the record is {record.value!r}"


def _refused(words: str) -> Iterator[str]:
    """All topics and partitions that are asked for are there."""
    if any(word in words for word in NOWHERE) and "not known" not in words:
        yield words


def _story(story: RecordStory, world: World, place: LedgerPlace) -> Iterator[str]:
    is_there = place.offset < world.end
    if story.place not in UNKNOWN_PLACES and (story.place is Standing.HERE) != is_there:
        yield f"it is {story.place}: {story.summary}"
    if story.place not in (*UNKNOWN_PLACES, Standing.HERE, Standing.BEYOND_END):
        yield f"it is {story.place}: {story.summary}"
    if story.is_below_watermark not in (None, is_there):
        yield f"it is below the watermark: {story.is_below_watermark}"
    for name, told in (("watermark", story.watermark), ("end", story.next_offset)):
        if told not in (-1, world.end):
            yield f"the {name} is {told}"
    if story.log_start not in (-1, 0):
        yield f"the log starts at {story.log_start}"
    for copy in story.copies:
        # The old leader may have been cut off since, and then it has what it says.
        if copy.node != world.old_leader and copy.place not in (
            None,
            Standing.HERE if is_there else Standing.BEYOND_END,
        ):
            yield f"node {copy.node} {copy.words}"
    ours = next((each for each in story.committed if each.group == world.group), None)
    if ours is not None and ours.has_it not in (None, is_there):
        yield f"the group has committed it: {ours.has_it}"
    is_all_told = not any(line.startswith("what all groups") for line in story.unknown)
    if ours is None and is_all_told:
        yield "the group has committed nothing"
    yield from (line for line in story.unknown if any(word in line for word in NOT_SO))
    yield from (
        f"given to {each.client_id} for {each.group}"
        for each in story.delivered
        if each.group not in (None, world.group)
    )


def where_a_key_is(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    number = dice.randrange(len(world.places) + 4)
    try:
        cluster = ClusterAdmin(bootstrap)
        topic = cluster.topic(world.topic)
        found = by_key(cluster, topic, list(range(PARTITIONS)), world.key(number).encode(), 1, SilentReporter())
    except ChronikError as refused:
        yield from _refused(str(refused))
        return
    yield from _found(found, world.places.get(number))


def where_a_sequence_number_is(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    partition = dice.randrange(PARTITIONS)
    producer_id, base_offset = world.producers[partition]
    sequence = dice.choice([0, 1, MISSING_SEQUENCE])
    try:
        topic = ClusterAdmin(bootstrap).topic(world.topic)
        found = by_sequence(parse_addresses(bootstrap), topic, [partition], producer_id, sequence)
    except ChronikError as refused:
        yield from _refused(str(refused))
        return
    yield from _found(found, None if sequence == MISSING_SEQUENCE else LedgerPlace(partition, base_offset + sequence))


def _found(found: SearchResult, place: LedgerPlace | None) -> Iterator[str]:
    if found.places and [tuple(each) for each in found.places] != [place]:
        yield f"it is at {found.places}, and is at {place}"
    if not found.places and place is not None and not found.unread:
        yield f"it is nowhere, and is at {place}"


def whether_a_topic_is_there(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    """It is since the second half, and its log is empty."""
    name, options = world.late_topic, ClientOptions(tuple(parse_addresses(bootstrap)), timeout_ms=PATIENCE_MS)
    for ask in dice.sample([_described, _placed, _bounded], 2):
        try:
            ask(bootstrap, name, options)
        except (ChronikError, pipeline_client.Failed, ConnectionFailed) as refused:
            words = str(refused)
            is_denied = any(word in words for word in (f"no topic {name}", f"no topic '{name}'", "has no partition"))
            if is_denied and world.is_late_topic_there:
                yield f"{ask.__name__}: {words}"


def _described(bootstrap: str, name: str, options: ClientOptions) -> None:
    ClusterAdmin(bootstrap).topic(name)


def _placed(bootstrap: str, name: str, options: ClientOptions) -> None:
    story_of(Gatherer(ClusterAdmin(bootstrap), name), At(0, 0))


def _bounded(bootstrap: str, name: str, options: ClientOptions) -> None:
    with pipeline_client.TopicClient(options) as cluster:
        bounds_of(cluster, [name])


def what_topic_describe_says(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    keys = [(world.topic, number) for number in range(PARTITIONS)]
    try:
        cluster = ClusterAdmin(bootstrap)
        topic = cluster.topic(world.topic)
        starts, ends = cluster.start_offsets(keys), cluster.end_offsets(keys)
    except ChronikError as refused:
        yield from _refused(str(refused))
        return
    watched = monitor(parse_addresses(bootstrap), world.topic)
    true = {"start_offset": 0, "log_start_offset": 0, "messages": world.end, "gap": 0} | dict.fromkeys(
        ("end_offset", "high_watermark", "next_offset", "last_stable_offset"), world.end
    )
    for part in topic.partitions:
        row = partition_row(
            part, starts.get((world.topic, part.partition)), ends.get((world.topic, part.partition)), watched
        )
        if watched is None:
            continue  # then no node tells whether the one that was asked leads, as at another Kafka
        for name, value in true.items():
            if row[name] not in (None, value):
                yield f"partition {part.partition}: {name} is {row[name]}"


def what_topic_delete_counts(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    keys = [(world.topic, number) for number in range(PARTITIONS)]
    try:
        cluster = ClusterAdmin(bootstrap)
        words = counted_messages(cluster.start_offsets(keys), cluster.end_offsets(keys))
    except ChronikError as refused:
        yield from _refused(str(refused))
        return
    untold = len(words.split("partition ")[1].split(", which")[0].split(", ")) if "no leader tells" in words else 0
    if not words.startswith(f"about {(PARTITIONS - untold) * world.end} message"):
        yield words


def what_group_describe_says(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    try:
        cluster = ClusterAdmin(bootstrap)
        described, committed = existing_group(cluster, world.group)
        rows = progress_rows(cluster, described, committed)
    except ChronikError as refused:
        if "unknown group" in str(refused) or "there is no group" in str(refused):
            yield str(refused)
        return
    if len(rows) != PARTITIONS:
        yield f"{len(rows)} partitions are committed"
    lag, untold = total_lag(rows)
    if lag or (not untold and any(row["lag"] is None for row in rows)):
        yield f"the lag is {lag}"
    for row in rows:
        if row["committed_offset"] != world.end or row["end_offset"] not in (None, world.end):
            yield f"{row}"


def whether_a_group_is_there(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    """It is since the second half."""
    try:
        existing_group(ClusterAdmin(bootstrap), world.late_group)
    except ChronikError as refused:
        if f"no group {world.late_group}" in str(refused) and world.is_late_topic_there:
            yield str(refused)


def what_topic_list_says(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    try:
        topics, doubt = ClusterAdmin(bootstrap).topics_now()
    except ChronikError:
        return
    if doubt is not None:
        return
    listed = {topic.name: len(topic.partitions) for topic in topics}
    if listed.get(world.topic) != PARTITIONS:
        yield f"{world.topic} has {listed.get(world.topic)} partitions"
    if (world.late_topic in listed) != world.is_late_topic_there:
        yield f"{world.late_topic} is there: {world.late_topic in listed}"


def what_watch_shows(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    try:
        snapshot = Looker(parse_addresses(bootstrap), [world.topic])()
    except NoAnswer as problem:
        if "no chronik" in str(problem):
            yield str(problem)
        return
    view = RateHistory().take(snapshot)
    for row in view.rows:
        if row.topic == world.topic and row.is_heard and (row.watermark, row.next_offset) != (world.end, world.end):
            yield f"{row.name}: watermark {row.watermark}, end {row.next_offset}"
        elif row.topic == world.topic and (row.watermark or 0) > world.end:
            yield f"{row.name}: watermark {row.watermark}"
    for group in view.groups:
        if group.group == world.group and group.lag not in (None, 0):
            yield f"the group lags by {group.lag}"


def what_stalls(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    """Nothing does."""
    gathering = TraceHistory(parse_addresses(bootstrap), [world.topic])
    try:
        gathering.look(2.0)
        events, now_us = gathering.look(2.0)
    except NoAnswer as problem:
        if "no chronik" in str(problem):
            yield str(problem)
        return
    yield from (verdict.summary for verdict in find(events, now_us))


def what_verify_finds(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    """Three messages that are there, one that was acknowledged and is not, one that was never accepted."""
    there = dice.sample(sorted(world.places), 3)
    lost, refused = len(world.places), len(world.places) + 1
    ledger = Ledger(len(world.places) + 2, lambda: 0.0)
    for number in there:
        ledger.send(number, world.places[number].partition)
        ledger.acknowledge(number, *world.places[number])
    ledger.send(lost, 0)
    ledger.acknowledge(lost, 0, world.end + 5)
    ledger.send(refused, 1)
    wanted = [*there, lost, refused]
    cluster = VerifiedCluster(bootstrap, parse_addresses(bootstrap))
    scene = Scene(world.topic, dict.fromkeys(range(PARTITIONS), 0), "consumer", "producer")
    try:
        if cluster.version_words == "another Kafka":
            yield cluster.version_words
        reader = open_client(ClientName.CONFLUENT, bootstrap)
        found = search(cluster, scene, reader, world.messages, wanted, None, quiet_s=1.0)
    except RunCannotStart:
        return
    told = fates(wanted, ledger, found)
    for number in there:
        if told[number] not in (Fate.NOT_CONSUMED, Fate.NOT_KNOWN):
            yield f"message {number} at {world.places[number]} is {told[number]}"
    if told[lost] not in (Fate.LOST, Fate.LOST_OR_NOT_VISIBLE, Fate.NOT_KNOWN):
        yield f"the lost message is {told[lost]}"
    if told[refused] not in (Fate.NEVER_ACCEPTED, Fate.NOT_ACCEPTED_OR_NOT_VISIBLE, Fate.NOT_KNOWN):
        yield f"the refused message is {told[refused]}"


def what_audit_reads(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    options = ClientOptions(tuple(parse_addresses(bootstrap)), timeout_ms=PATIENCE_MS)
    number = dice.randrange(PARTITIONS)
    try:
        with pipeline_client.TopicClient(options) as cluster:
            bounds = bounds_of(cluster, [world.topic])
        if any((each.log_start, each.log_end, each.is_compacted) != (0, world.end, False) for each in bounds):
            yield f"{bounds}"
        reading = ReadOptions(options, Topics((world.topic,)), Everywhere(EARLIEST), Everywhere(LATEST))
        whole = OffsetRange(pipeline_client.ReadPartition(world.topic, number), None, 0, world.end)
        with DECODING:
            offsets = [offset for batch in read_range(whole, reading) for offset in batch.column("offset").to_pylist()]
    except (pipeline_client.Failed, ConnectionFailed) as refused:
        yield from _refused(str(refused))
        return
    if offsets != list(range(world.end)):
        yield f"partition {number} has {offsets}"


def what_audit_knows_of_groups(bootstrap: str, world: World, dice: random.Random) -> Iterator[str]:
    options = ClientOptions(tuple(parse_addresses(bootstrap)), timeout_ms=PATIENCE_MS)
    try:
        with pipeline_client.TopicClient(options) as cluster:
            commits = commits_of(cluster, world.group, [world.topic])
    except (pipeline_client.Failed, ConnectionFailed):
        return
    if [each.offset for each in commits] != [world.end] * PARTITIONS:
        yield f"{commits}"


# What one client is told by one node, and there is no other to ask, is as true as that node: a stale one is not meant.
OF_MANY_NODES: tuple[Question, ...] = (
    where_an_offset_is,
    where_an_offset_is,
    where_an_offset_is,
    where_a_key_is,
    where_a_sequence_number_is,
    whether_a_topic_is_there,
    whether_a_topic_is_there,
    whether_a_group_is_there,
    what_topic_list_says,
    what_topic_describe_says,
    what_watch_shows,
    what_stalls,
    what_verify_finds,
    what_audit_reads,
)
ALL: tuple[Question, ...] = (
    *OF_MANY_NODES,
    what_topic_delete_counts,
    what_group_describe_says,
    what_audit_knows_of_groups,
)
