"""Being somebody who may not touch what belongs to another user."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = 0
SOMEBODY, ANOTHER = 65_534, 65_533


@contextlib.contextmanager
def as_somebody() -> Iterator[None]:
    """Root may do everything, so root is somebody else for a while."""
    is_root = os.geteuid() == ROOT
    if is_root:
        os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(ROOT)


@contextlib.contextmanager
def process_of_another() -> Iterator[int]:
    """The id of a process that we may not signal: a new one if we can make it, else one that is there."""
    if os.geteuid() == ROOT:
        with subprocess.Popen(["sleep", "600"], user=ANOTHER) as process:
            try:
                yield process.pid
            finally:
                process.kill()
        return
    others = [
        int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal() and each.stat().st_uid == ROOT
    ]
    if not others:
        pytest.skip("there is no process of another user here")
    yield others[0]
