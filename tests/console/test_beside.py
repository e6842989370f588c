"""The console that `chronik cluster start` has beside it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from chronik.cli.console.beside import ConsoleBeside
from tests.cluster.support import wait_until


def is_up(url: str) -> bool:
    try:
        with urlopen(url + "health", timeout=10) as answer:
            return bool(answer.read() == b"ok\n")
    except (URLError, ConnectionError, TimeoutError):
        return False


def test_it_is_there_without_a_cluster_and_ends_when_it_is_told_to() -> None:
    beside = ConsoleBeside("127.0.0.1:1")
    try:
        wait_until(lambda: is_up(beside.url), "the console answers", 30)
        with pytest.raises(URLError, match="503"):  # and it says that no node answers
            urlopen(beside.url, timeout=30)
    finally:
        beside.end()

    assert not is_up(beside.url)


def test_a_cluster_in_the_foreground_has_one_that_does_not_outlive_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chronik", "cluster", "start", "--nodes", "1", "--port", "0"]
    started = subprocess.Popen([*command, "--data-dir", str(tmp_path / "c")], stderr=subprocess.PIPE, text=True)
    try:
        assert started.stderr is not None
        line = ""
        while not (found := re.search(r"console: (http://\S+)", line)):
            line = started.stderr.readline()
            assert line, "it ended"
        url = found[1]
        wait_until(lambda: is_up(url), "the console answers", 30)
        started.terminate()
        started.wait(30)
    finally:
        started.kill()
        started.wait()
        if started.stderr is not None:
            started.stderr.close()

    assert not is_up(url)
