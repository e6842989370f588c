"""The lock on a data directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chronik.shell.data_dir import DataDirLock, holder_of
from chronik.shell.errors import StartError

HOLDS_IT = """
import sys
from chronik.shell.data_dir import DataDirLock
lock = DataDirLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_the_directory_is_made_and_held_until_it_is_released(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "er")

    lock = DataDirLock(path)

    assert os.path.isdir(path)
    with pytest.raises(StartError, match="in use by another node"):
        DataDirLock(path)
    lock.release()
    DataDirLock(path).release()


def test_a_refused_lock_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    lock = DataDirLock(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        with pytest.raises(StartError):
            DataDirLock(str(tmp_path))

    assert len(os.listdir("/proc/self/fd")) == before
    lock.release()


def test_a_node_that_is_killed_lets_go_of_its_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_IT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StartError, match="in use"):
            DataDirLock(str(tmp_path))
        holder.send_signal(signal.SIGKILL)
        holder.wait()

    DataDirLock(str(tmp_path)).release()


def test_who_holds_a_directory_is_known_while_it_is_held_and_no_longer(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert holder_of(path) is None

    lock = DataDirLock(path)
    assert holder_of(path) == os.getpid()

    lock.release()
    assert holder_of(path) is None  # though the file still has the number in it


def test_to_ask_who_holds_a_directory_keeps_no_node_from_starting(tmp_path: Path) -> None:
    DataDirLock(str(tmp_path)).release()
    asks = (
        f"from chronik.shell.data_dir import holder_of\nwhile True: holder_of({str(tmp_path)!r}) or print(flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", asks], stdout=subprocess.PIPE) as asking:
        try:
            assert asking.stdout is not None
            asking.stdout.readline()
            for _ in range(100):
                DataDirLock(str(tmp_path)).release()
        finally:
            asking.kill()


def test_a_directory_that_cannot_be_made_is_named_with_what_helps(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StartError) as caught:
        DataDirLock(str(tmp_path / "file" / "below"))

    assert str(tmp_path / "file" / "below") in caught.value.message
    assert "--data-dir" in caught.value.what_to_do
