"""How much memory this process may use, and how much of that clients' requests may take."""

from __future__ import annotations

import os
from pathlib import Path

REQUEST_SHARE = 8  # one part in so many
REQUEST_BYTES_MAX = 1024**3
# Of containers: version 2, then version 1. A process sees its own group at the root.
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes(limit_files: tuple[str, ...] = CGROUP_LIMITS) -> int:
    """What the machine has, or the container may use of it."""
    smallest = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in limit_files:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):  # not in a container, or not one of this kind
            continue
        if text.isdigit():  # else 'max'
            smallest = min(smallest, int(text))
    return smallest


def request_bytes_max(memory: int) -> int:
    """The share of clients' requests, if no setting says."""
    return min(memory // REQUEST_SHARE, REQUEST_BYTES_MAX)
