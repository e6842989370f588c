"""A whole node over fake doors: from the bytes of a request to those of its answer, and over restarts."""

from __future__ import annotations

import asyncio
import errno
import logging
import struct
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest
from kio.schema.request_header.v1.header import RequestHeader as ClassicHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader

from chronik.core.config.node import NodeConfig
from chronik.core.config.sections.groups import GroupsConfig
from chronik.core.config.sections.offsets import OffsetsConfig
from chronik.core.errors import Code, Corrupt
from chronik.core.machines.metadata.commands import DeleteTopics, TopicToDelete
from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import Doors
from chronik.node.cluster.identity import Identity
from chronik.node.coordinators.group_settings import group_config
from chronik.node.net.connection import Connection
from chronik.node.node import Node
from chronik.node.replication.checkpoints import CLEAN
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.versions import APIS
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import FakeChance, FakeClock, FakeTransport
from tests.unit.wire.hot_requests import fetch_request, produce_request
from tests.unit.wire.messages import read, request_type, response_type, write

PRODUCE, FETCH, METADATA = 0, 1, 3
LEADER_EPOCH_END = 16  # of a batch: what stands before is the broker's to fill in


class FakeNetwork:
    """Listens on nothing; `accept` makes a connection as a listener would."""

    def __init__(self) -> None:
        self.accept: Callable[[], Connection] | None = None
        self.address = ("localhost", 9999)

    async def listen(self, host: str, port: int, accept: Any, *, protocol: str = "PLAINTEXT") -> FakeNetwork:
        self.accept = accept
        return self

    async def close(self) -> None:
        self.accept = None

    def send_now(self, transport: Any, pieces: list[Any]) -> list[Any]:
        return pieces


class Running:
    """A node that was started, and a client connected to it."""

    def __init__(self, files: MemoryFiles, settings: dict[str, str] | None = None) -> None:
        self.files = files
        self.network = FakeNetwork()
        self.clock = FakeClock()
        self.node = Node(
            NodeConfig.from_settings({"listeners": "PLAINTEXT://localhost:0", **(settings or {})}),
            Identity(1, "a-test-cluster"),
            Doors(cast(Any, files), self.clock, cast(Any, self.network), FakeChance()),
            "/data",
        )

    async def start(self) -> Running:
        await self.node.start()
        assert self.network.accept is not None
        self.connection = self.network.accept()
        self.transport = FakeTransport()
        self.connection.connection_made(cast(Any, self.transport))
        return self

    def send(self, api_key: int, version: int, body: bytes) -> None:
        header_type: Any = FlexibleHeader if APIS[api_key].is_flexible(version) else ClassicHeader
        head = write(
            header_type(request_api_key=api_key, request_api_version=version, correlation_id=7, client_id="test")
        )
        frame = struct.pack(">i", len(head) + len(body)) + head + body
        self.transport.written.clear()
        self.connection.get_buffer(-1)[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))

    async def ask(self, api_key: int, version: int, body: bytes) -> Any:
        self.send(api_key, version, body)
        for _ in range(50):
            if not self.transport.written:
                await asyncio.sleep(0)
        kind = response_type(api_key, version)
        answer = bytes(self.transport.written)
        return read(kind, answer[4 + len(write(kind.__header_schema__(correlation_id=7))) :])

    async def produce(self, batch: bytes, topic: str = "orders") -> tuple[int, int]:
        """Error code and offset."""
        response = await self.ask(PRODUCE, 9, produce_request(9, None, -1, 1000, [(topic, [(0, batch)])]))
        (answer,) = response.responses[0].partition_responses
        return int(answer.error_code), int(answer.base_offset)

    async def fetch(self, offset: int = 0, topic: str = "orders") -> bytes:
        asked = [FetchPartition(topic, 0, offset, 1_000_000, -1)]
        request = FetchRequest(-1, 0, 0, 10_000_000, 0, 0, -1, asked, [])
        response = await self.ask(FETCH, 11, fetch_request(11, request))
        return response.responses[0].partitions[0].records or b""

    async def begin_fetch(self, *, max_wait_ms: int) -> None:
        """A fetch from the beginning that may wait."""
        request = FetchRequest(
            -1, max_wait_ms, 1, 10_000_000, 0, 0, -1, [FetchPartition("orders", 0, 0, 1_000, -1)], []
        )
        self.send(FETCH, 11, fetch_request(11, request))
        await asyncio.sleep(0)

    async def metadata(self, *topics: str) -> Any:
        """Metadata 4, which makes the topics it is asked for."""
        kind = request_type(METADATA, 4)
        parts: Any = __import__(kind.__module__, fromlist=["*"])
        wanted = tuple(parts.MetadataRequestTopic(name=name) for name in topics)
        return await self.ask(METADATA, 4, write(kind(topics=wanted, allow_auto_topic_creation=True)))

    async def delete(self, topic: str) -> None:
        await self.node.cluster.metadata.ask_here(DeleteTopics((TopicToDelete(name=topic),)))
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run(test: Callable[[MemoryFiles], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def wrapped() -> None:
        asyncio.run(test(MemoryFiles()))

    wrapped.__name__ = test.__name__
    return wrapped


async def made_with_orders(files: MemoryFiles, settings: dict[str, str] | None = None) -> Running:
    running = await Running(files, settings).start()
    await running.metadata("orders")
    return running


@run
async def test_a_new_node_names_itself_as_the_only_broker_under_the_port_it_got(files: MemoryFiles) -> None:
    running = await Running(files).start()

    response = await running.metadata()

    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "localhost", 9999)]
    await running.node.stop()


@run
async def test_what_is_produced_is_fetched_byte_for_byte(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    batch = batch_of(3)

    assert await running.produce(bytes(batch)) == (0, 0)
    assert await running.produce(bytes(batch_of(1))) == (0, 3)
    content = await running.fetch()

    assert content[16 : len(batch)] == bytes(batch)[16:]  # all but offset and epoch, which the log stamps
    assert running.node.metrics.faults == 0
    await running.node.stop()


@run
async def test_what_was_acknowledged_survives_a_power_cut(files: MemoryFiles) -> None:
    before = await made_with_orders(files)
    for number in range(5):
        assert await before.produce(bytes(batch_of())) == (0, number)
    kept = await before.fetch()
    await before.node.stop()
    files.remove(CLEAN)
    cut = files.copy()
    cut.crash()

    after = await Running(cut).start()

    assert await after.fetch() == kept
    assert await after.produce(bytes(batch_of())) == (0, 5)
    await after.node.stop()


@run
async def test_an_orderly_stop_is_marked_and_the_mark_is_gone_while_it_runs(files: MemoryFiles) -> None:
    first = await made_with_orders(files)
    await first.produce(bytes(batch_of()))
    assert not files.exists(CLEAN)
    await first.node.stop()
    assert files.exists(CLEAN)

    second = await Running(files).start()
    assert not files.exists(CLEAN)
    assert await second.produce(bytes(batch_of())) == (0, 1)

    assert second.node.replicas.leader("orders", 0).log.recovery.was_clean
    await second.node.stop()


@run
async def test_a_stop_on_a_full_disk_is_not_marked_as_orderly_and_loses_nothing(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    batch = bytes(batch_of())
    assert await running.produce(batch) == (0, 0)
    files.room_bytes = 0

    await running.node.stop()
    assert not files.exists(CLEAN)

    files.room_bytes = None
    again = await Running(files).start()
    assert (await again.fetch())[LEADER_EPOCH_END:] == batch[LEADER_EPOCH_END:]
    assert await again.produce(bytes(batch_of())) == (0, 1)
    await again.node.stop()
    assert files.exists(CLEAN)


@run
async def test_a_topic_made_anew_after_a_restart_begins_at_0_and_the_old_files_go(files: MemoryFiles) -> None:
    first = await made_with_orders(files)
    for _ in range(3):
        await first.produce(bytes(batch_of()))
    await first.node.stop()
    second = await Running(files).start()

    await second.delete("orders")
    assert not [name for name in files.names("") if name.startswith("orders")]
    await second.metadata("orders")

    assert await second.produce(bytes(batch_of())) == (0, 0)
    await second.node.stop()


@run
async def test_a_directory_that_cannot_be_removed_is_no_fault_and_goes_with_the_next_start(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    await running.produce(bytes(batch_of()))
    remove = files.remove

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    files.remove = fail  # type: ignore[method-assign]
    await running.delete("orders")
    for _ in range(5):
        await asyncio.sleep(0)
    files.remove = remove  # type: ignore[method-assign]

    assert running.node.metrics.faults == 0
    assert [name for name in files.names("") if name.startswith("orders")]
    await running.node.stop()
    again = await Running(files).start()
    assert not [name for name in files.names("") if name.startswith("orders")]
    await again.node.stop()


@run
async def test_a_deletion_that_is_lost_in_a_power_cut_has_deleted_nothing(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    assert await running.produce(bytes(batch_of())) == (0, 0)
    deletion = running.node.cluster.metadata.ask_here(DeleteTopics((TopicToDelete(name="orders"),)))
    cuts = [(files.copy(), deletion.done())]
    for _ in range(20):
        await asyncio.sleep(0)
        cuts.append((files.copy(), deletion.done()))
    await running.node.stop()

    was_there = []
    for cut, is_deleted in cuts:  # the power goes at each step of the deletion
        cut.crash()
        again = await Running(cut).start()
        was_there.append(again.node.image.topic("orders") is not None)
        if was_there[-1]:
            assert not is_deleted
            assert await again.produce(bytes(batch_of())) == (0, 1)
            await again.delete("orders")
        await again.node.stop()
        assert not [path for path in cut.paths() if path.startswith("orders")]
    assert was_there[0]
    assert not was_there[-1]


@run
async def test_a_node_whose_metadata_log_is_damaged_does_not_start(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    await running.node.stop()
    files.remove(CLEAN)
    files.flip(f"{METADATA_TOPIC}-0/00000000000000000000.log", 8 * 16)

    with pytest.raises(Corrupt):
        Running(files)


@run
async def test_the_metadata_log_cannot_be_written_or_read_by_clients(files: MemoryFiles) -> None:
    running = await made_with_orders(files)

    assert await running.produce(bytes(batch_of()), METADATA_TOPIC) == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await running.fetch(0, METADATA_TOPIC) == b""
    await running.node.stop()


@run
async def test_stopping_leaves_no_task_behind(files: MemoryFiles) -> None:
    running = await made_with_orders(files)
    await running.produce(bytes(batch_of()))

    await running.node.stop()
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert running.transport.is_closing()


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("bidirectional", (True, True)),
        ("upgrade", (True, False)),
        ("downgrade", (False, True)),
        ("disabled", (False, False)),
    ],
)
def test_the_migration_policy_says_which_way_a_group_may_move(policy: str, allowed: tuple[bool, bool]) -> None:
    groups = group_config(GroupsConfig(group_consumer_migration_policy=policy), OffsetsConfig())
    assert (groups.can_upgrade, groups.can_downgrade) == allowed
