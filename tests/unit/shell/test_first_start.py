"""A data directory whose first start is refused: it is as it was, whatever was wrong can be corrected."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from chronik.core.config.node import NodeConfig
from chronik.node.cluster.identity import registered, settle
from chronik.shell.chance import RealChance
from chronik.shell.errors import StartError
from chronik.shell.files import RealFiles
from chronik.shell.first_start import VOTE, FirstStart
from chronik.shell.main import House
from chronik.shell.ports import free_ports
from tests.unit.client.answering import answering
from tests.unit.shell.test_join_checks import OURS, speaking


def config(tmp_path: Path, voters: str, *, listen: str = "127.0.0.1:0", node_id: int = 1) -> NodeConfig:
    return NodeConfig.from_settings(
        {
            "node.id": str(node_id),
            "cluster.id": "a-cluster",
            "log.dirs": str(tmp_path / "data"),
            "listeners": listen,
            "http.address": "",
            "controller.quorum.voters": voters,
        }
    )


def refused(wanted: NodeConfig) -> str:
    """What is said when it does not start."""

    async def run() -> str:
        house = House(wanted)
        try:
            with pytest.raises(StartError) as caught:
                await house.open()
            return caught.value.message
        finally:
            await house.close()

    return asyncio.run(run())


def found(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data").iterdir() if path.name != ".lock")


# --- the house


def test_a_twin_that_is_refused_may_come_back_under_another_number(tmp_path: Path) -> None:
    with answering(speaking(OURS)) as address:
        said = refused(config(tmp_path, f"1@{address[0]}:{address[1]},2@127.0.0.1:1"))

    assert "another node with id 1 is alive" in said
    assert found(tmp_path) == []
    assert settle(RealFiles(str(tmp_path / "data")), 3, RealChance(), "a-cluster").node_id == 3


def test_a_port_that_is_taken_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused(config(tmp_path, "", listen=f"127.0.0.1:{taken.getsockname()[1]}"))

    assert "is in use" in said
    assert found(tmp_path) == []


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "node.log").write_text("what the last process said")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused(config(tmp_path, "", listen=f"127.0.0.1:{taken.getsockname()[1]}"))

    assert found(tmp_path) == ["node.log"]


def test_a_node_that_was_here_before_keeps_its_directory(tmp_path: Path) -> None:
    async def once() -> None:
        house = House(config(tmp_path, ""))
        await house.open()
        await house.close()

    asyncio.run(once())
    before = found(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused(config(tmp_path, "", listen=f"127.0.0.1:{taken.getsockname()[1]}"))

    assert found(tmp_path) == before


def test_a_node_that_is_stopped_while_it_asks_who_votes_leaves_nothing(tmp_path: Path) -> None:
    (nobody,) = free_ports(1)
    settings = {"node.id": "4", "cluster.id": "a-cluster", "log.dirs": str(tmp_path / "data"), "http.address": ""}
    joining = NodeConfig.from_settings({**settings, "controller.quorum.bootstrap.servers": f"127.0.0.1:{nobody}"})

    async def run() -> None:
        house = House(joining)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await house.open()
        await house.close()

    asyncio.run(run())

    assert found(tmp_path) == []


# --- what can be undone


def test_a_directory_that_its_cluster_knows_of_is_kept(tmp_path: Path) -> None:
    files = RealFiles(str(tmp_path))
    first = FirstStart(files)
    identity = settle(files, 1, RealChance(), "a-cluster")
    assert first.can_be_undone(is_voter=True)

    registered(files, identity, 5)

    assert not first.can_be_undone(is_voter=True)


def test_a_vote_that_may_have_been_given_is_kept(tmp_path: Path) -> None:
    files = RealFiles(str(tmp_path))
    first = FirstStart(files)
    settle(files, 1, RealChance(), "a-cluster")
    files.replace(VOTE, b"{}")

    assert not first.can_be_undone(is_voter=True)
    assert first.can_be_undone(is_voter=False)  # it says only which node led


def test_all_that_a_first_start_makes_goes(tmp_path: Path) -> None:
    files = RealFiles(str(tmp_path))
    first = FirstStart(files)
    settle(files, 1, RealChance(), "a-cluster")
    files.replace(VOTE, b"{}")
    files.replace("found-voters", b"2@there:9092")

    first.undo()

    assert list(tmp_path.iterdir()) == []
