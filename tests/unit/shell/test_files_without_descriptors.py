"""The Files door where the process has no descriptors left, and where a read or a sync fails."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.core.errors import SyncFailed
from chronik.shell.files import THREADS, RealFile, RealFiles, sync_content


@pytest.fixture
def files(tmp_path: Path) -> Iterator[RealFiles]:
    door = RealFiles(str(tmp_path))
    yield door
    door.close()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[list[int]]:
    """Within it the process cannot open anything, unless something is closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield taken
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)


def filled(files: RealFiles, *names: str) -> list[RealFile]:
    opened = [files.open(name) for name in names]
    for file in opened:
        file.append((file.path.encode(),))
    return opened


def test_what_needs_a_descriptor_gets_that_of_a_file_used_less(files: RealFiles, tmp_path: Path) -> None:
    async def run() -> None:
        old = filled(files, *(f"old{number}" for number in range(20)))
        (tmp_path / "there").write_bytes(b"there")

        with no_descriptors_left():
            assert files.open("there").read(0, 10) == b"there"
            files.open("new").append((b"new",))
            files.replace("replaced", b"replaced")
            files.rename("replaced", "renamed")
            assert files.read_all("renamed") == b"replaced"
            assert "renamed" in files.names("")

        with no_descriptors_left():
            await files.replace_later("later", b"later")

        assert files.read_all("later") == b"later"
        assert [file.read(0, 10) for file in old] == [file.path.encode() for file in old]

    asyncio.run(run())


def test_without_any_to_give_up_it_says_why_and_nothing_is_changed(files: RealFiles, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"there")
    file = files.open("there")

    with no_descriptors_left():
        for attempt in (
            lambda: file.read(0, 10),
            lambda: file.read_cached(0, 10),
            lambda: file.append((b"more",)),
            file.sync,
            lambda: files.replace("there", b"other"),
            lambda: files.rename("there", "elsewhere"),
            lambda: files.names(""),
        ):
            with pytest.raises(OSError) as caught:
                attempt()
            assert caught.value.errno == errno.EMFILE
            assert not isinstance(caught.value, SyncFailed)

    assert file.read(0, 10) == b"there"
    assert (tmp_path / "there").read_bytes() == b"there"


def test_a_sync_that_cannot_begin_says_so_and_can_be_tried_again(files: RealFiles) -> None:
    async def run() -> None:
        (file,) = filled(files, "a")
        file.close()
        with no_descriptors_left():
            (problem,) = await files.sync_later([file])
        assert problem is not None
        assert problem.errno == errno.EMFILE
        assert not isinstance(problem, SyncFailed)
        assert await files.sync_later([file]) == [None]

    asyncio.run(run())


def test_a_sync_that_fails_is_told_from_one_that_could_not_begin() -> None:
    ours, theirs = os.pipe()  # which cannot be synced
    try:
        with pytest.raises(SyncFailed) as caught:
            sync_content(ours)
        assert caught.value.errno == errno.EINVAL
    finally:
        os.close(ours)
        os.close(theirs)


def test_one_read_that_fails_does_not_make_all_others_slow(files: RealFiles, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"there")
    file = files.open("there")

    with no_descriptors_left(), pytest.raises(OSError):
        file.read_cached(0, 5)

    assert files.can_ask_for_cached
    file.read(0, 5)
    assert file.read_cached(0, 5) == b"there"


class UnableToTell(RealFiles):
    """The system answers this when it is asked what is in memory."""

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(str(root))
        self._number = number

    def read_now(self, descriptor: int, content: bytearray, position: int) -> int:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOMEM, errno.EMFILE])
def test_what_goes_wrong_with_one_cached_read_is_its_own_problem(tmp_path: Path, number: int) -> None:
    (tmp_path / "there").write_bytes(b"there")
    door = UnableToTell(tmp_path, number)

    with pytest.raises(OSError) as caught:
        door.open("there").read_cached(0, 5)

    assert caught.value.errno == number
    assert door.can_ask_for_cached
    door.close()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_cannot_tell_is_read_plainly_from_then_on(tmp_path: Path, number: int) -> None:
    (tmp_path / "there").write_bytes(b"there")
    door = UnableToTell(tmp_path, number)

    assert door.open("there").read_cached(0, 5) == b"there"
    assert not door.can_ask_for_cached
    door.close()


def test_however_many_files_are_synced_only_so_many_are_open(tmp_path: Path) -> None:
    async def run() -> None:
        door = RealFiles(str(tmp_path), open_files_max=8)
        many = filled(door, *(f"d/{number}" for number in range(100)))
        before = open_descriptors()
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, open_descriptors())
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        assert await door.sync_later(many) == [None] * 100
        watching.cancel()
        assert most <= before + THREADS * 2
        door.close()

    asyncio.run(run())
