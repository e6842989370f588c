"""The Files door on a real file system."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from chronik.core.ports import FileSlice, Outgoing
from chronik.shell.files import RECENT_BYTES, THREADS, RealFile, RealFiles
from chronik.shell.network import RealNetwork


@pytest.fixture
def files(tmp_path: Path) -> Iterator[RealFiles]:
    door = RealFiles(str(tmp_path))
    yield door
    door.close()


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Within it no file grows beyond `size`: writes are cut short there and then fail, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- one file


def test_a_file_and_its_directory_come_into_being_at_the_first_append(files: RealFiles, tmp_path: Path) -> None:
    file = files.open("orders-0/0.log")

    assert file.size() == 0
    assert file.read(0, 10) == b""
    assert not (tmp_path / "orders-0").exists()

    file.append((b"one", bytearray(b"two"), memoryview(b"three")))

    assert file.size() == 11
    assert (tmp_path / "orders-0" / "0.log").read_bytes() == b"onetwothree"


def test_appends_go_to_the_end_also_of_a_file_that_was_there(files: RealFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    file = files.open("a")

    file.append((b"new",))

    assert file.size() == 6
    assert file.read(0, 100) == b"oldnew"


def test_a_read_is_shorter_than_asked_for_only_at_the_end(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"0123456789",))

    assert file.read(2, 3) == b"234"
    assert file.read(8, 10) == b"89"
    assert file.read(10, 10) == b""


def test_a_write_that_fails_halfway_leaves_the_file_as_it_was(files: RealFiles, tmp_path: Path) -> None:
    file = files.open("a")
    file.append((b"safe" * 1000,))

    with largest_file(10_000), pytest.raises(OSError) as caught:
        file.append((b"x" * 5000, b"y" * 5000))

    assert caught.value.errno == errno.EFBIG
    assert file.size() == 4000
    assert (tmp_path / "a").read_bytes() == b"safe" * 1000


def test_after_a_write_that_failed_the_next_goes_where_it_should(files: RealFiles, tmp_path: Path) -> None:
    file = files.open("a")
    file.append((b"safe",))
    with largest_file(100), pytest.raises(OSError):
        file.append((b"x" * 500,))

    file.append((b"more",))

    assert (tmp_path / "a").read_bytes() == b"safemore"


def test_what_a_failed_write_left_and_could_not_be_cut_off_goes_with_the_next_chance(
    files: RealFiles, tmp_path: Path
) -> None:
    def left_by_a_failed_write(file: RealFile) -> None:
        """Its descriptor can neither be written nor cut, and some of what was written is there all the same."""
        usable, unusable = file.descriptor, os.open(tmp_path / file.path, os.O_RDONLY)
        file.descriptor = unusable
        with pytest.raises(OSError):
            file.append((b"refused",))
        file.descriptor = usable
        os.close(unusable)
        with (tmp_path / file.path).open("ab") as end:
            end.write(b"refus")

    appended, cut = files.open("a"), files.open("b")
    for file in (appended, cut):
        file.append((b"safe",))
        left_by_a_failed_write(file)
        assert file.size() == 4

    appended.append((b"!",))
    cut.truncate(4)

    assert (tmp_path / "a").read_bytes() == b"safe!"
    assert (tmp_path / "b").read_bytes() == b"safe"


def test_what_is_written_again_stands_where_it_stood(files: RealFiles, tmp_path: Path) -> None:
    file = files.open("a")
    file.append((b"0123456789",))

    file.write_again(4, b"456789")
    file.append((b"x",))

    assert (tmp_path / "a").read_bytes() == b"0123456789x"


def test_truncate_cuts_and_the_next_append_goes_on_from_there(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"0123456789",))

    file.truncate(4)
    file.append((b"x",))

    assert file.read(0, 100) == b"0123x"


def test_a_recent_part_is_read_at_once_and_an_old_one_when_it_is_in_memory(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"old",))
    file.truncate(RECENT_BYTES + 8192)
    file.append((b"new",))

    assert file.read_cached(RECENT_BYTES + 8192, 3) == b"new"
    assert file.read_cached(0, 3) in (b"old", None)
    file.read(0, 4096)
    assert file.read_cached(0, 3) == b"old"


def test_what_was_just_written_is_in_memory(files: RealFiles) -> None:
    """What was just written is in memory and what an earlier process wrote may not be."""
    file = files.open("a")
    file.append((b"0123456789",))

    assert file.is_in_memory(0)
    assert not files.open("a").is_in_memory(0)


def test_a_slice_is_sent_unread_as_far_as_the_socket_takes_it_and_the_rest_is_left(files: RealFiles) -> None:
    file = files.open("a")
    content = bytes(range(256)) * 65536
    file.append((content,))
    pieces: list[Outgoing] = [b"head", FileSlice(file, 0, len(content)), b"tail"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        left = RealNetwork().send_now(cast(asyncio.Transport, SocketTransport(ours)), pieces)
        ours.close()
        sent = b"".join(iter(lambda: theirs.recv(1 << 20), b""))

    rest = b"".join(map(bytes, left))
    assert 4 < len(sent) < len(content)
    assert sent + rest == b"head" + content + b"tail"


def test_nothing_is_written_to_the_socket_below_tls(files: RealFiles) -> None:
    """F63: what `send_now` leaves goes through the transport, which encrypts it."""
    file = files.open("a")
    file.append((b"0123456789",))
    pieces: list[Outgoing] = [b"head", FileSlice(file, 0, 10)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        encrypted = SocketTransport(ours, ssl.create_default_context())
        left = RealNetwork().send_now(cast(asyncio.Transport, encrypted), pieces)
        ours.close()
        assert theirs.recv(100) == b""

    assert left == pieces


def test_a_slice_that_is_no_longer_all_there_is_an_error_and_not_fewer_bytes(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"0123456789",))
    lost = FileSlice(file, 4, 6)
    file.truncate(8)

    with pytest.raises(OSError, match="6 bytes wanted"):
        bytes(lost)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(OSError, match="nothing at"):
        file.send(ours.fileno(), 8, 2)


def test_a_file_that_was_given_up_is_not_opened_again_though_its_path_holds_another(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"old",))
    file.retire()
    files.replace("a", b"new")

    with pytest.raises(OSError, match="removed or replaced"):
        file.read(0, 3)
    with pytest.raises(OSError, match="removed or replaced"):
        bytes(FileSlice(file, 0, 3))
    assert files.open("a").read(0, 3) == b"new"


class SocketTransport:
    """As much of a transport as `send_now` looks at."""

    def __init__(self, opened: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        self._shown = {"socket": opened, "sslcontext": tls}

    def get_extra_info(self, name: str) -> socket.socket | ssl.SSLContext | None:
        return self._shown[name]


def test_a_read_that_may_wait_for_the_disk_gives_the_same(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"0123456789",))

    async def read() -> bytes:
        return await files.read_later(file, 3, 4)

    assert asyncio.run(read()) == b"3456"


# --- descriptors


def test_no_more_files_are_open_than_allowed_and_all_can_be_used(tmp_path: Path) -> None:
    door = RealFiles(str(tmp_path), open_files_max=3)
    before = open_descriptors()
    opened = [door.open(f"{number}.log") for number in range(20)]

    for turn in range(3):
        for number, file in enumerate(opened):
            file.append((f"{turn}:{number};".encode(),))
            assert open_descriptors() - before <= 3

    assert [file.read(0, 100) for file in opened] == [f"0:{n};1:{n};2:{n};".encode() for n in range(20)]
    door.close()
    assert open_descriptors() == before


def test_the_file_used_last_is_closed_last(tmp_path: Path) -> None:
    door = RealFiles(str(tmp_path), open_files_max=2)
    busy, idle, other = (door.open(name) for name in ("busy", "idle", "other"))
    busy.append((b"x",))
    idle.append((b"x",))

    busy.append((b"x",))
    other.append((b"x",))

    assert busy.descriptor >= 0
    assert idle.descriptor < 0
    door.close()


def test_a_descriptor_that_a_thread_uses_is_not_closed_to_make_room(tmp_path: Path) -> None:
    door = RealFiles(str(tmp_path), open_files_max=2)
    pinned = door.open("pinned")
    pinned.append((b"x",))
    pinned.pins += 1

    for number in range(5):
        door.open(f"{number}").append((b"x",))

    assert os.fstat(pinned.descriptor).st_ino == os.stat(tmp_path / "pinned").st_ino
    pinned.pins -= 1
    door.close()


def test_a_file_closed_while_it_is_synced_is_closed_when_that_is_done(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"x",))

    async def close_meanwhile() -> None:
        syncing = asyncio.ensure_future(files.sync_later([file]))
        await asyncio.sleep(0)
        assert file.pins == 1
        file.close()
        assert file.descriptor >= 0
        assert await syncing == [None]

    asyncio.run(close_meanwhile())

    assert file.descriptor < 0


def test_a_closed_file_can_be_used_again(files: RealFiles) -> None:
    file = files.open("a")
    file.append((b"one",))

    file.close()

    assert file.descriptor < 0
    file.append((b"two",))
    assert file.read(0, 10) == b"onetwo"


# --- syncing


@pytest.mark.parametrize("count", [1, THREADS - 1, THREADS, 3 * THREADS + 1])
def test_each_file_has_its_own_outcome_of_a_sync(files: RealFiles, tmp_path: Path, count: int) -> None:
    bad = {place for place in range(count) if place % 3 == 0}
    for place in bad:
        os.mkfifo(tmp_path / f"{place}")  # can be opened like a file, and cannot be synced
    opened = [files.open(f"{place}") for place in range(count)]
    for place, file in enumerate(opened):
        if place not in bad:
            file.append((b"x",))

    async def sync() -> list[OSError | None]:
        return await files.sync_later(opened)

    outcomes = asyncio.run(sync())

    assert {place for place, outcome in enumerate(outcomes) if outcome is not None} == bad
    assert len(outcomes) == count
    assert all(file.pins == 0 for file in opened)


def test_the_sync_of_a_file_that_is_gone_says_so(files: RealFiles, tmp_path: Path) -> None:
    gone, there = files.open("gone"), files.open("there")
    gone.append((b"x",))
    there.append((b"x",))
    gone.close()
    (tmp_path / "gone").unlink()

    async def sync() -> list[OSError | None]:
        return await files.sync_later([gone, there])

    outcomes = asyncio.run(sync())

    assert isinstance(outcomes[0], OSError)
    assert outcomes[1] is None


def test_a_sync_of_a_file_that_never_was_does_nothing(files: RealFiles, tmp_path: Path) -> None:
    files.open("never/written").sync()

    assert os.listdir(tmp_path) == []


# --- the tree


def test_replace_puts_new_content_in_place_and_leaves_nothing_beside_it(files: RealFiles, tmp_path: Path) -> None:
    files.replace("deep/checkpoint", b"one")
    files.replace("deep/checkpoint", b"two")

    assert files.read_all("deep/checkpoint") == b"two"
    assert os.listdir(tmp_path / "deep") == ["checkpoint"]


def test_a_replace_that_fails_leaves_the_old_content(files: RealFiles) -> None:
    files.replace("checkpoint", b"old")

    with largest_file(100), pytest.raises(OSError):
        files.replace("checkpoint", b"x" * 10_000)

    assert files.read_all("checkpoint") == b"old"


def test_what_is_not_wanted_any_more_when_it_is_written_is_not_put_in_place(files: RealFiles, tmp_path: Path) -> None:
    async def replace() -> None:
        await files.replace_later("checkpoint", b"wanted", lambda: True)
        await files.replace_later("checkpoint", b"not wanted", lambda: False)

    asyncio.run(replace())

    assert files.read_all("checkpoint") == b"wanted"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_nobody_comes_between_the_question_whether_a_file_is_wanted(files: RealFiles) -> None:
    """Nobody comes between the question whether a file is wanted and its being there."""
    newer = threading.Thread(target=files.replace, args=("checkpoint", b"newer"))

    def is_wanted() -> bool:
        newer.start()
        newer.join(0.2)  # it has to wait; without the lock it is done long before
        return True

    async def replace() -> None:
        await files.replace_later("checkpoint", b"older", is_wanted)

    asyncio.run(replace())
    newer.join()

    assert files.read_all("checkpoint") == b"newer"


def test_reading_all_of_a_file_that_is_not_there_says_so(files: RealFiles) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_all("nothing")


def test_names_are_sorted_and_a_directory_that_is_not_there_has_none(files: RealFiles) -> None:
    for name in ("b", "a", "c"):
        files.replace(f"deep/{name}", b"")

    assert files.names("deep") == ["a", "b", "c"]
    assert files.names("nothing") == []
    assert files.exists("deep/a")
    assert not files.exists("deep/d")


def test_a_renamed_directory_is_found_under_its_new_name(files: RealFiles) -> None:
    files.replace("orders-0/a", b"x")

    files.rename("orders-0", "orders-0-delete")

    assert files.names("") == ["orders-0-delete"]
    assert files.read_all("orders-0-delete/a") == b"x"


def test_remove_takes_files_and_whole_directories_and_does_not_mind_nothing(files: RealFiles) -> None:
    files.replace("one", b"x")
    files.replace("deep/er/two", b"x")

    files.remove("one")
    files.remove("nothing")
    asyncio.run(remove_later(files, "deep"))

    assert files.names("") == []


async def remove_later(files: RealFiles, path: str) -> None:
    await files.remove_later(path)


def test_the_disk_has_a_size_and_not_more_free_than_that(files: RealFiles) -> None:
    size, free = files.disk_bytes()

    assert 0 < free <= size
