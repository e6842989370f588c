"""The builder of the house: settings, and why a node does not start."""

from __future__ import annotations

import asyncio
import logging
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.core.config.node import NodeConfig
from chronik.shell.errors import StartError
from chronik.shell.main import House, load_config, stay, written


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def config(tmp_path: Path, **values: str) -> NodeConfig:
    settings = {"log.dirs": str(tmp_path / "data"), "listeners": "127.0.0.1:0", "http.address": "127.0.0.1:0"}
    settings |= {key.replace("_", "."): value for key, value in values.items()}
    return load_config(settings, None)


def start_error(wanted: NodeConfig) -> StartError:
    """Why it does not start; whatever was opened is closed again."""

    async def run() -> StartError:
        house = House(wanted)
        try:
            with pytest.raises(StartError) as caught:
                await house.open()
            return caught.value
        finally:
            await house.close()

    return asyncio.run(run())


def test_an_address_is_written_so_that_it_can_be_copied() -> None:
    assert written(("127.0.0.1", 9092)) == "127.0.0.1:9092"
    assert written(("::1", 9092)) == "[::1]:9092"


# --- settings


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\nnode.id=5\n")

    loaded = load_config({"num.partitions": "7"}, str(path))

    assert (loaded.topics.num_partitions, loaded.node_id) == (7, 5)


def test_without_file_or_values_everything_has_its_default() -> None:
    assert load_config({}, None) == NodeConfig()


def test_an_unknown_setting_is_refused_with_the_nearest_right_name() -> None:
    with pytest.raises(StartError) as caught:
        load_config({"num.partition": "3"}, None)

    assert "num.partition" in caught.value.message
    assert caught.value.what_to_do == "did you mean num.partitions?"


def test_a_setting_like_no_other_is_refused_with_where_to_look() -> None:
    with pytest.raises(StartError) as caught:
        load_config({"zzzzzz": "3"}, None)

    assert caught.value.what_to_do == "see docs/configuration.md for the settings"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("num.partitions", "many", "whole number"),
        ("num.partitions", "0", "at least 1"),
        ("durability", "sometimes", "one of sync, os"),
        ("listeners", "CLIENTS://127.0.0.1:9092", "CLIENTS"),
        ("http.address", "nowhere", "HOST:PORT"),
        ("group.min.session.timeout.ms", "1900000", "must not be larger"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(key: str, value: str, said: str) -> None:
    with pytest.raises(StartError) as caught:
        load_config({key: value}, None)

    assert key in caught.value.message
    assert said in caught.value.message


def test_a_setting_of_kafka_that_means_nothing_here_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A setting of kafka that means nothing here is passed over with a line in the log."""
    with caplog.at_level(logging.INFO):
        loaded = load_config({"zookeeper.connect": "localhost:2181"}, None)

    assert loaded == NodeConfig()
    assert "zookeeper.connect has no meaning here" in caplog.text


# --- starting


def test_a_house_opens_serves_and_closes(tmp_path: Path) -> None:
    async def run() -> None:
        house = House(config(tmp_path))
        await house.open()
        assert house.address[1] > 0
        assert house.http_address is not None
        url = "http://{}:{}/ready".format(*house.http_address)
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).status)
        assert answer == 200
        await house.close()
        await House(config(tmp_path)).close()  # the directory is free again

    asyncio.run(run())


def test_a_node_whose_number_another_has_taken_ends_with_words(tmp_path: Path) -> None:
    async def run() -> None:
        house = House(config(tmp_path))
        node = await house.open()
        staying = asyncio.ensure_future(stay(node, asyncio.Event()))
        await asyncio.sleep(0)
        assert not staying.done()
        node.cluster.liveness.has_to_end.set()
        with pytest.raises(StartError, match="another node with id 1 is alive"):
            await staying
        await house.close()

    asyncio.run(run())


def test_a_node_stays_until_it_is_told_to_stop(tmp_path: Path) -> None:
    async def run() -> None:
        house, stop = House(config(tmp_path)), asyncio.Event()
        staying = asyncio.ensure_future(stay(await house.open(), stop))
        stop.set()
        await staying
        await house.close()

    asyncio.run(run())


def test_a_house_without_http_has_no_http_address(tmp_path: Path) -> None:
    async def run() -> None:
        house = House(config(tmp_path, http_address=""))
        await house.open()
        assert house.http_address is None
        await house.close()

    asyncio.run(run())


def test_a_port_in_use_is_named_with_the_option_that_helps(tmp_path: Path, taken_port: int) -> None:
    problem = start_error(config(tmp_path, listeners=f"127.0.0.1:{taken_port}"))

    assert problem.message == f"port {taken_port} on 127.0.0.1 is in use"
    assert "--listen" in problem.what_to_do


def test_an_http_port_in_use_is_named_with_the_option_that_helps(tmp_path: Path, taken_port: int) -> None:
    problem = start_error(config(tmp_path, http_address=f"127.0.0.1:{taken_port}"))

    assert problem.message == f"port {taken_port} on 127.0.0.1 is in use"
    assert "--http" in problem.what_to_do


def test_an_address_that_is_not_this_machines_is_named(tmp_path: Path) -> None:
    problem = start_error(config(tmp_path, listeners="192.0.2.1:0"))

    assert "cannot listen on 192.0.2.1:0" in problem.message
    assert "--listen" in problem.what_to_do


def test_a_directory_in_use_keeps_a_second_house_from_being_built(tmp_path: Path) -> None:
    async def run() -> None:
        first = House(config(tmp_path))
        with pytest.raises(StartError, match="in use by another node"):
            House(config(tmp_path))
        await first.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("version=1\ncluster.id=x\nnode.id=1\nchronik.format=99\n", "format 99"),
        ("version=1\ncluster.id=x\nnode.id=2\nchronik.format=1\n", "belongs to node 2"),
        ("version=1\ncluster.id=x\nnode.id=1\n", "not written by chronik"),
    ],
)
def test_a_directory_of_another_node_or_a_newer_format_is_left_alone(tmp_path: Path, meta: str, said: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text(meta)

    problem = start_error(config(tmp_path))

    assert said in problem.message
    assert "--data-dir" in problem.what_to_do
    assert (tmp_path / "data" / "meta.properties").read_text() == meta


def test_a_metadata_log_that_is_damaged_is_named_and_not_served(tmp_path: Path) -> None:
    async def once() -> None:
        house = House(config(tmp_path))
        await house.open()
        await house.close()

    asyncio.run(once())
    segment = tmp_path / "data" / "__cluster_metadata-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 0xFF
    segment.write_bytes(content)

    problem = start_error(config(tmp_path))

    assert "is damaged" in problem.message
    assert "__cluster_metadata" in problem.message
