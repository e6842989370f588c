"""Who a node is, as its data directory says."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import pytest

from chronik.node.cluster.identity import META, Identity, WrongDirectory, registered, settle
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.fakes import FakeChance


def settled(files: MemoryFiles, node_id: int = 1, cluster_id: str | None = None) -> Identity:
    return settle(cast(Any, files), node_id, FakeChance(), cluster_id)


def test_a_new_directory_gets_an_identity_that_lasts() -> None:
    files = MemoryFiles()
    first = settled(files)

    files.crash()

    assert settled(files) == first == Identity(1, first.cluster_id, was_registered=False)
    assert len(first.cluster_id) == 22  # a uuid as Kafka writes it


def test_the_file_is_kafkas_with_two_lines_of_ours() -> None:
    files = MemoryFiles()
    identity = registered(cast(Any, files), settled(files, 3))

    *lines, checksum = files.read_all(META).decode().splitlines()

    assert lines == ["version=1", f"cluster.id={identity.cluster_id}", "node.id=3", "chronik.format=1"]
    assert checksum.startswith("chronik.checksum=")


def test_a_new_directory_is_new_until_its_cluster_knows_of_it() -> None:
    files = MemoryFiles()
    settled(files)
    files.crash()
    again = settled(files)
    assert not again.was_registered

    known = registered(cast(Any, files), again)
    files.crash()

    assert known == settled(files) == Identity(1, again.cluster_id, was_registered=True)


def test_a_directory_remembers_the_epoch_it_was_registered_with() -> None:
    files = MemoryFiles()

    known = registered(cast(Any, files), settled(files), 17)
    files.crash()

    assert settled(files) == known
    assert known.broker_epoch == 17


def test_a_directory_of_an_older_version_is_not_new() -> None:
    files = MemoryFiles()
    files.replace(META, b"version=1\ncluster.id=x\nnode.id=1\nchronik.format=1\n")

    assert settled(files).was_registered


def test_a_new_directory_joins_the_cluster_that_was_configured() -> None:
    files = MemoryFiles()

    assert settled(files, cluster_id="the-one").cluster_id == "the-one"
    assert settled(files, cluster_id="the-one").cluster_id == settled(files).cluster_id == "the-one"


def test_a_directory_of_another_cluster_is_left_alone() -> None:
    files = MemoryFiles()
    settled(files, cluster_id="the-one")
    before = files.read_all(META)

    with pytest.raises(WrongDirectory, match="belongs to the cluster the-one, this node to another"):
        settled(files, cluster_id="another")

    assert files.read_all(META) == before


def test_a_letter_that_turned_into_another_is_damage_and_not_another_cluster() -> None:
    files = MemoryFiles()
    cluster_id = settled(files).cluster_id
    files.flip(META, files.read_all(META).index(cluster_id.encode()) * 8)

    with pytest.raises(WrongDirectory, match="checksum"):
        settled(files)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version=1\ncluster.id=x\nnode.id=2\nchronik.format=1\n", "belongs to node 2"),
        (b"version=1\ncluster.id=x\nnode.id=1\nchronik.format=2\n", "format 2"),
        (b"version=1\ncluster.id=x\nnode.id=1\n", "not written by chronik"),
        (b"version=1\ncluster.id=x\nnode.id=1\nchronik.format=\xc2\xb2\n", "not written by chronik"),
        (b"\xff\xfe\x00", "not written by chronik"),
        (b"", "not written by chronik"),
    ],
)
def test_a_directory_of_another_is_left_alone(content: bytes, reason: str) -> None:
    files = MemoryFiles()
    files.replace(META, content)

    with pytest.raises(WrongDirectory, match=reason):
        settled(files)

    assert files.read_all(META) == content


@pytest.mark.parametrize("cluster_id", ["LuXuTuLnXtTrLf-ELuXuTu", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_no_bit_of_it_can_turn_over_unseen_even_where_that_makes_an_escape(cluster_id: str) -> None:
    files = MemoryFiles()
    registered(cast(Any, files), settled(files, cluster_id=cluster_id), 17)
    sound = files.read_all(META)

    for bit in range(len(sound) * 8):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        files.replace(META, bytes(damaged))
        with suppress(WrongDirectory):
            assert settled(files) == Identity(1, cluster_id, broker_epoch=17), f"bit {bit}"  # e.g. a blank for another
