"""A disk that forgets in a power cut what was not synced, and lies after a failed sync as real ones do."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from chronik.core.errors import SyncFailed
from chronik.sim.chance import SimChance
from chronik.sim.files import SimDisk, Trouble
from chronik.sim.loop import SimLoop

T = TypeVar("T")


def disk(seed: int = 1) -> SimDisk:
    return SimDisk(SimChance(seed, "disk"))


def run(work: Coroutine[Any, Any, T]) -> T:
    loop = SimLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def written(made: SimDisk, path: str, *pieces: bytes, synced: int) -> None:
    file = made.open(path)
    for number, piece in enumerate(pieces):
        if number == synced:
            file.sync()
        file.append((piece,))


def test_a_power_cut_leaves_what_was_synced_and_a_prefix_of_the_rest() -> None:
    left = set()
    for seed in range(60):
        made = disk(seed)
        written(made, "a/0.log", b"safe", b"unsafe", synced=1)

        made.power_cut()

        left.add(made.read_all("a/0.log"))

    assert all(b"safeunsafe".startswith(content) and content.startswith(b"safe") for content in left)
    assert {b"safe", b"safeunsafe"} < left


def test_the_worst_power_cut_leaves_nothing_else() -> None:
    made = disk()
    written(made, "a/0.log", b"safe", b"unsafe", synced=1)
    written(made, "a/1.log", b"never synced", synced=9)

    made.power_cut(keeps=0.0)

    assert made.read_all("a/0.log") == b"safe"
    assert not made.exists("a/1.log")


def test_a_killed_process_loses_nothing_that_was_written() -> None:
    made = disk()
    written(made, "a/0.log", b"safe", b"unsafe", synced=1)

    made.process_died()

    assert made.read_all("a/0.log") == b"safeunsafe"


def test_a_sync_covers_what_had_been_written_when_it_began() -> None:
    made = disk()
    file = made.open("a/0.log")
    file.append((b"before",))

    async def sync_and_write() -> None:
        syncing = asyncio.ensure_future(made.sync_later([file]))
        await asyncio.sleep(0)
        file.append((b"during",))
        assert await syncing == [None]

    run(sync_and_write())
    made.power_cut(keeps=0.0)

    assert made.read_all("a/0.log") == b"before"


def test_after_a_failed_sync_the_next_one_reports_success_and_is_worth_nothing() -> None:
    made = disk()
    written(made, "a/0.log", b"lost", synced=9)
    made.failures["sync"] = OSError(5, "Input/output error")

    async def sync() -> list[OSError | None]:
        return await made.sync_later([made.open("a/0.log")])

    assert isinstance(run(sync())[0], OSError)
    made.failures.clear()
    made.process_died()  # the next one is told so as well
    assert run(sync()) == [None]
    made.power_cut(keeps=0.0)

    assert not made.exists("a/0.log") or made.read_all("a/0.log") == b""


def test_what_a_failed_sync_left_is_synced_once_it_was_written_again() -> None:
    made = disk()
    written(made, "a/0.log", b"safe", b"lost", synced=1)
    file = made.open("a/0.log")
    made.failures["sync"] = OSError(5, "Input/output error")
    with pytest.raises(OSError):
        file.sync()
    made.failures.clear()
    made.process_died()

    file.write_again(2, b"felost")
    file.sync()
    made.power_cut(keeps=0.0)

    assert made.read_all("a/0.log") == b"safelost"


def test_only_all_of_it_written_again_is_enough() -> None:
    made = disk()
    written(made, "a/0.log", b"safe", b"lost", synced=1)
    file = made.open("a/0.log")
    made.failures["sync"] = OSError(5, "Input/output error")
    with pytest.raises(OSError):
        file.sync()
    made.failures.clear()

    file.write_again(4, b"los")
    file.sync()
    made.power_cut(keeps=0.0)

    assert made.read_all("a/0.log") == b"safe"


def test_a_removed_file_may_be_back_unless_its_directory_was_synced() -> None:
    back = set()
    for seed in range(30):
        made = disk(seed)
        made.replace("a/old", b"old")
        made.remove("a/old")
        if seed % 2:
            made.replace("a/new", b"new")

        made.power_cut()

        back.add((bool(seed % 2), made.exists("a/old")))

    assert back == {(False, True), (False, False), (True, False)}


def test_what_is_put_in_place_without_a_sync_may_be_torn() -> None:
    left = set()
    for seed in range(60):
        made = disk(seed)
        made.replace("a/mark", b"old")
        made.replace("a/mark", b"new content", sync=False)

        made.power_cut()

        left.add(made.read_all("a/mark"))

    assert b"old" in left
    assert all(content == b"old" or b"new content".startswith(content) for content in left)


def test_what_is_not_there_cannot_be_renamed() -> None:
    with pytest.raises(FileNotFoundError):
        disk().rename("a", "b")


def test_a_cut_that_was_not_synced_leaves_what_it_did_not_cut() -> None:
    for seed in range(50):
        disk = SimDisk(SimChance(seed, "disk"))
        file = disk.open("log")
        file.append((b"0123456789",))
        file.sync()

        file.truncate(6)
        file.append((b"abc",))
        disk.power_cut()

        left = bytes(disk.contents["log"].written)
        assert left == b"0123456789" or (left.startswith(b"012345") and b"012345abc".startswith(left))


def test_a_disk_that_was_lost_has_nothing() -> None:
    disk = SimDisk(SimChance(1, "disk"))
    disk.open("log").append((b"0123456789",))
    disk.open("log").sync()

    disk.wipe()
    disk.power_cut()

    assert disk.paths() == []


def test_a_directory_whose_name_is_not_on_disk_is_lost_with_what_was_synced_in_it() -> None:
    left = set()
    for seed in range(30):
        made = disk(seed)
        made.open("new-0/0.log").append((b"x",))
        content = made.contents["new-0/0.log"]
        content.durable = bytes(content.written)  # synced, and its names are not
        made.power_cut()
        left.add(made.exists("new-0/0.log"))

    assert left == {True, False}


def test_a_rename_whose_names_could_not_be_synced_is_done_and_may_be_undone() -> None:
    left = set()
    for seed in range(30):
        made = disk(seed)
        made.replace("a/old", b"x")
        made.trouble = Trouble(frozenset({"names"}), errno.EIO, 1.0, has_begun=True)
        with pytest.raises(SyncFailed):
            made.rename("a/old", "a/new")
        assert made.paths() == ["a/new"]
        made.trouble = None
        made.power_cut()
        left.add(tuple(made.paths()))

    assert left == {("a/old",), ("a/new",)}


def test_a_directory_that_was_renamed_is_there_by_its_new_name() -> None:
    """A directory that was renamed is there by its new name with all that was synced."""
    made = disk()
    made.replace("a-0/0.log", b"x")
    made.open("a-0/1.log").append((b"not synced",))

    made.rename("a-0", "a-0.gone-delete")
    made.power_cut(keeps=0.0)

    assert made.paths() == ["a-0.gone-delete/0.log"]


@pytest.mark.parametrize("call", ["read", "write", "sync", "make", "names", "rename", "remove", "list"])
def test_any_call_fails_in_a_phase_of_trouble_and_goes_on_after_it(call: str) -> None:
    made = disk()
    made.replace("a/0.log", b"x")
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: made.open("a/0.log").read(0, 1),
        "write": lambda: made.open("a/0.log").append((b"y",)),
        "sync": lambda: made.open("a/0.log").sync(),
        "make": lambda: made.open("a/1.log").append((b"y",)),
        "names": lambda: made.replace("a/2.log", b"y"),
        "rename": lambda: made.rename("a/0.log", "a/3.log"),
        "remove": lambda: made.remove("a/3.log"),
        "list": lambda: made.names("a"),
    }
    made.trouble = Trouble(frozenset({call}), errno.EMFILE, 1.0)

    with pytest.raises(OSError) as caught:
        calls[call]()

    assert caught.value.errno == errno.EMFILE
    made.trouble = None
    calls[call]()


@pytest.mark.parametrize(("has_begun", "left"), [(True, b"safe"), (False, b"safemore")])
def test_a_sync_that_finds_no_room_loses_its_bytes_if_it_had_begun(has_begun: bool, left: bytes) -> None:
    made = disk()
    written(made, "a/0.log", b"safe", b"more", synced=1)
    made.trouble = Trouble(frozenset({"sync"}), errno.ENOSPC, 1.0, has_begun=has_begun)
    with pytest.raises(OSError):
        made.open("a/0.log").sync()
    made.trouble = None
    made.process_died()

    made.open("a/0.log").sync()  # says that all is well, to whichever process asks
    made.power_cut(keeps=0.0)

    assert made.read_all("a/0.log") == left


def test_of_nothing_a_full_disk_takes_nothing() -> None:
    for seed in range(10):
        made = disk(seed)
        written(made, "a/0.log", b"safe", synced=9)
        made.trouble = Trouble(frozenset({"write"}), errno.ENOSPC, 1.0)

        with pytest.raises(OSError) as caught:
            made.open("a/0.log").append(())

        assert caught.value.errno == errno.ENOSPC
        made.process_died()
        made.trouble = None
        assert made.read_all("a/0.log") == b"safe"


def test_what_a_full_disk_took_of_a_write_is_found_by_the_next_process_only() -> None:
    found = set()
    for seed in range(40):
        made = disk(seed)
        written(made, "a/0.log", b"safe", synced=9)
        made.room_bytes = 6
        file = made.open("a/0.log")
        with pytest.raises(OSError):
            file.append((b"more",))
        assert file.size() == 4
        made.process_died()
        found.add(made.read_all("a/0.log"))

    assert b"safe" in found
    assert len(found) > 2
    assert all(b"safemore".startswith(content) for content in found)
