"""A file that was synced is found after a power cut only if every name on the way to it is on disk too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.shell.data_dir import make_directory
from chronik.shell.files import RealFiles


class Door:
    """A door that tells which directories it syncs, relative to the data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.failing: set[str] = set()
        self._synced: list[str] = []
        self.files = RealFiles(str(root), sync_names=self._sync)

    def _sync(self, directory: str) -> None:
        name = os.path.relpath(directory, self._root)
        if name in self.failing:
            raise OSError(5, "Input/output error", name)
        self._synced.append(name)

    def synced(self) -> list[str]:
        """Since the last time this was asked."""
        told, self._synced = self._synced, []
        return told

    def sync_later(self, *paths: str) -> list[OSError | None]:
        async def sync() -> list[OSError | None]:
            return await self.files.sync_later([self.files.open(path) for path in paths])

        return asyncio.run(sync())


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    made.files.replace("settled", b"")  # from here on the data directory's names are on disk
    made.synced()
    yield made
    made.files.close()


def test_a_new_file_is_synced_with_the_names_of_its_directory_and_of_those_above(door: Door) -> None:
    file = door.files.open("orders-0/0.log")
    file.append((b"x",))

    assert door.sync_later("orders-0/0.log") == [None]

    assert sorted(door.synced()) == [".", "orders-0"]
    file.append((b"y",))
    assert door.sync_later("orders-0/0.log") == [None]
    assert door.synced() == []


def test_several_new_files_of_a_directory_cost_one_sync_of_it(door: Door) -> None:
    for number in range(3):
        door.files.open(f"orders-0/{number}.log").append((b"x",))

    door.sync_later("orders-0/0.log", "orders-0/1.log", "orders-0/2.log")

    assert sorted(door.synced()) == [".", "orders-0"]


def test_a_file_put_in_place_in_a_new_directory_is_synced_with_that_directorys_name(door: Door) -> None:
    door.files.replace("__cluster_metadata-0/quorum-state", b"a vote")

    assert sorted(door.synced()) == [".", "__cluster_metadata-0"]


def test_what_an_earlier_process_made_and_did_not_sync_is_synced_by_name_too(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "0.log").write_bytes(b"x")
    door = Door(tmp_path)

    door.files.open("orders-0/0.log").sync()

    assert sorted(door.synced()) == [".", "orders-0"]
    door.files.close()


def test_a_removal_is_on_disk_with_the_next_sync_in_its_directory(door: Door) -> None:
    for name in ("old", "new"):
        door.files.open(f"orders-0/{name}").append((b"x",))
        door.sync_later(f"orders-0/{name}")
    door.synced()

    door.files.remove("orders-0/old")
    door.sync_later("orders-0/new")

    assert door.synced() == ["orders-0"]


def test_a_directory_that_was_renamed_is_synced_where_it_stands(
    door: Door,
) -> None:
    """A directory that was renamed is synced where it stands and another by its old name begins anew."""
    door.files.open("orders-0/0.log").append((b"x",))
    door.sync_later("orders-0/0.log")
    door.synced()

    door.files.rename("orders-0", "orders-0.gone-delete")
    assert door.synced() == ["."]
    door.files.open("orders-0/0.log").append((b"another topic",))
    door.sync_later("orders-0/0.log")

    assert sorted(door.synced()) == [".", "orders-0"]


def test_names_that_could_not_be_synced_are_tried_again_and_the_file_does_not_count(door: Door) -> None:
    """Names that could not be synced are tried again and the file does not count before."""
    door.files.open("orders-0/0.log").append((b"x",))
    door.failing.add(".")

    (problem,) = door.sync_later("orders-0/0.log")
    door.failing.clear()
    again = door.sync_later("orders-0/0.log")

    assert isinstance(problem, OSError)
    assert again == [None]
    assert door.synced() == ["orders-0", "."]


def test_a_name_made_while_its_directory_is_being_synced_needs_another_sync(tmp_path: Path) -> None:
    synced: list[str] = []

    def sync(directory: str) -> None:
        if not synced:
            files.open("b").append((b"x",))
        synced.append(directory)

    files = RealFiles(str(tmp_path), sync_names=sync)
    files.replace("a", b"x")

    files.open("b").sync()

    assert synced == [str(tmp_path), str(tmp_path)]
    files.close()


def test_a_data_directory_is_made_with_all_above_it(tmp_path: Path) -> None:
    synced: list[str] = []

    make_directory(str(tmp_path / "var" / "lib" / "chronik"), synced.append)
    make_directory(str(tmp_path / "var" / "lib" / "chronik"), synced.append)

    assert (tmp_path / "var" / "lib" / "chronik").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "var"), str(tmp_path / "var" / "lib")]
