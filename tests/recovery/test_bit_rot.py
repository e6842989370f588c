"""One bit of one file of a stopped node turned over: it is noticed, and nothing wrong is ever served.

The whole node is started on the damaged directory, in this process to be quick (a few times as a process of its own):
it starts, or says why not. Then every partition gives exactly what was acknowledged, or an error; and those whose files
were not touched give everything.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Refused
from chronik.core.log.segment import SMALL_BYTES
from chronik.core.ports import Unread
from chronik.core.records.payload import walk
from chronik.node.node import Node
from chronik.shell.errors import StartError
from chronik.shell.main import House
from chronik.testing import NodeDied, RunningNode, node
from tests.recovery.ledger import TIMEOUT_S, send

FLIPS = int(os.environ.get("CHRONIK_FLIPS", "200"))
KINDS = (
    "damaged-0/*.log",
    "damaged-0/*.index",
    "damaged-0/*.timeindex",
    "damaged-0/*.snapshot",
    "damaged-0/leader-epoch-checkpoint",
    "damaged-0/partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "__cluster_metadata-0/*.log",
    "__consumer_offsets-0/*.log",
)
DAMAGED, OTHER = "damaged", "other"
VALUE_BYTES = SMALL_BYTES // 8
RECORDS = 40
DELETED = 5  # records below the log start of the other topic
COMMITTED = 17
SETTINGS = {"offsets.topic.num.partitions": "1", "log.segment.bytes": str(SMALL_BYTES * 2)}


def value(topic: str, number: int) -> bytes:
    return b"%s-%03d-" % (topic.encode(), number) + bytes(VALUE_BYTES)


EXPECTED = {topic: {offset: value(topic, offset) for offset in range(RECORDS)} for topic in (DAMAGED, OTHER)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that was stopped in order, with every kind of file in it."""
    root = tmp_path_factory.mktemp("bit-rot") / "template"
    with node(SETTINGS, data_dir=str(root)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for created in admin.create_topics([NewTopic(DAMAGED, 1, 1), NewTopic(OTHER, 1, 1)]).values():
            created.result(TIMEOUT_S)
        for topic in (DAMAGED, OTHER):
            send(running.bootstrap, topic, *EXPECTED[topic].values())
        admin.delete_records([TopicPartition(OTHER, 0, DELETED)])[TopicPartition(OTHER, 0)].result(TIMEOUT_S)
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "g", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(DAMAGED, 0, COMMITTED)], asynchronous=False)
        consumer.close()
    return root


def files_of(root: Path, kind: str) -> list[Path]:
    found = sorted(path for path in root.glob(kind) if path.stat().st_size)
    assert found, f"there is no {kind} to damage"
    return found


def flip(path: Path, bit: int) -> str:
    """Turn a bit over; a number beyond the end begins again at the start."""
    content = bytearray(path.read_bytes())
    bit %= len(content) * 8
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return f"bit {bit} of {path.parent.name}/{path.name}"


@dataclass
class Seen:
    """What one start on a damaged directory brought."""

    refusal: str | None = None  # the node did not start, and why
    records: dict[str, dict[int, bytes]] = field(default_factory=dict)  # by topic; not there when it gave an error
    starts: dict[str, int] = field(default_factory=dict)
    committed: int | None = None
    warnings: list[str] = field(default_factory=list)
    cluster_id: str = ""


class Warnings(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def look(root: Path) -> Seen:
    """Start a node on this directory, read all it gives, and stop it."""
    warnings, seen = Warnings(), Seen()
    logging.getLogger("chronik").addHandler(warnings)
    try:
        asyncio.run(_look(root, seen))
    finally:
        logging.getLogger("chronik").removeHandler(warnings)
    seen.warnings = warnings.lines
    return seen


async def _look(root: Path, seen: Seen) -> None:
    settings = {**SETTINGS, "log.dirs": str(root), "listeners": "127.0.0.1:0", "http.address": ""}
    house = House(NodeConfig.from_settings(settings))
    try:
        opened = await house.open()
        seen.cluster_id = opened.identity.cluster_id
        for topic in (DAMAGED, OTHER):
            _read(opened, topic, seen)
        for machine in opened.groups.machines():
            for group in machine.list_groups():
                offset = machine.offsets.get(group.group_id, DAMAGED, 0)
                seen.committed = None if offset is None else offset.offset
    except StartError as refused:
        seen.refusal = str(refused)
    finally:
        await house.close()


def _read(opened: Node, topic: str, seen: Seen) -> None:
    """As a fetch does it: from the start to the watermark, in pages, every slice checked. An error ends it."""
    found: dict[int, bytes] = {}
    try:
        replica = opened.replicas.leader(topic, 0)
        seen.starts[topic] = offset = replica.log.start_offset
        while offset < replica.high_watermark:
            plan = replica.read(offset, VALUE_BYTES * 3, 0, at_least_one=True)
            assert plan is not None, f"nothing at {offset} of {replica.high_watermark}"
            content = opened.replicas.read_cached(plan)
            assert content is not None
            assert not isinstance(content, Unread)
            if opened.replicas.check_read(replica, plan, content):
                return
            for record in walk(bytes(content)):
                found[record.offset] = bytes(record.value or b"")
            offset = plan.next_offset
    except Refused:
        return
    seen.records[topic] = found


def check(seen: Seen, sound: Seen, where: str) -> None:
    """Exactly what was acknowledged, or an error; what was not touched, whole."""
    if seen.refusal is not None:
        return
    damaged = where.split(" of ")[1].split("/")[0]
    for topic in (DAMAGED, OTHER):
        records = seen.records.get(topic)
        if records is None:
            assert topic == DAMAGED or damaged not in (f"{DAMAGED}-0",), f"{where}: {topic} is not served"
            assert any("offline" in line for line in seen.warnings), f"{where}: nobody is told that {topic} is offline"
            continue
        assert records == sound.records[topic], f"{where}: {topic} is served wrong"
        assert seen.starts[topic] == sound.starts[topic], f"{where}: the log start of {topic} is wrong"
    if damaged not in ("__consumer_offsets-0",) or seen.committed is not None:
        assert seen.committed == sound.committed, f"{where}: the committed offset is wrong"
    assert seen.cluster_id == sound.cluster_id, f"{where}: another cluster"


def was_noticed(seen: Seen) -> bool:
    return bool(seen.refusal or seen.warnings)


@pytest.mark.timeout(300)
def test_a_bit_turned_over_in_any_kind_of_file_is_noticed_and_never_served(template: Path, quick_path: Path) -> None:
    dice = random.Random(7)
    shutil.copytree(template, quick_path / "sound")
    sound = look(quick_path / "sound")
    assert not was_noticed(sound)
    assert sound.records[DAMAGED] == EXPECTED[DAMAGED]
    assert sound.committed == COMMITTED
    wrong: list[str] = []
    noticed = dict.fromkeys(KINDS, 0)
    for number in range(FLIPS):
        kind = KINDS[number % len(KINDS)]
        root = quick_path / "damaged"
        shutil.copytree(template, root)
        where = flip(dice.choice(files_of(root, kind)), dice.getrandbits(32))
        seen = look(root)
        noticed[kind] += was_noticed(seen)
        try:
            check(seen, sound, where)
        except AssertionError as problem:
            wrong.append(str(problem).splitlines()[0])
        shutil.rmtree(root)
    assert wrong == []
    for kind in KINDS:
        assert noticed[kind] > 0, f"damage to {kind} was never noticed: {noticed}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_process_on_a_damaged_directory_serves_the_truth_or_says_why_not(
    template: Path, tmp_path: Path, kind: str
) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(template, root)
    flip(files_of(root, kind)[0], random.Random(kind).getrandbits(32))
    refusal = ""
    try:
        with node(SETTINGS, data_dir=str(root)) as running:
            for topic, start_offset in ((OTHER, DELETED), (DAMAGED, 0)):
                expected = {offset: EXPECTED[topic][offset] for offset in range(start_offset, RECORDS)}
                is_touched = topic == DAMAGED or "/" not in kind
                delivered = consume_until_offline(running, topic, start_offset)
                assert delivered == expected or (is_touched and is_offline(running, topic))
                assert delivered.items() <= expected.items()
    except NodeDied as died:
        refusal = str(died)
    assert not refusal or ("the data directory" in refusal and "Traceback" not in refusal), refusal


def is_offline(running: RunningNode, topic: str) -> bool:
    return f"{topic}-0 is offline" in Path(running.log_path).read_text()


def consume_until_offline(running: RunningNode, topic: str, start_offset: int) -> dict[int, bytes]:
    """What a consumer is given until it has everything, or the node says that there is no more to be had."""
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "-", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, start_offset)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < RECORDS - start_offset and not is_offline(running, topic):
        assert time.monotonic() < deadline, f"{len(found)} records, and no word of damage"
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found[message.offset() or 0] = bytes(message.value() or b"")
    consumer.close()
    return found


@pytest.mark.parametrize("kind", ["log-start-offset-checkpoint", "meta.properties"])
def test_every_bit_of_a_file_without_room_for_a_checksum_matters(template: Path, quick_path: Path, kind: str) -> None:
    shutil.copytree(template, quick_path / "sound")
    sound = look(quick_path / "sound")
    size = (template / kind).stat().st_size
    for bit in range(size * 8):
        root = quick_path / "damaged"
        shutil.copytree(template, root)
        flip(root / kind, bit)
        check(look(root), sound, f"bit {bit} of damaged/{kind}")
        shutil.rmtree(root)
