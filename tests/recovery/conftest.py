"""Where these tests put their files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY_DISK = "/dev/shm"


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory on a disk in memory, if there is one: thousands of syncs would take minutes elsewhere."""
    on_memory = MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="chronik-recovery-", dir=on_memory))
    yield made
    shutil.rmtree(made)
