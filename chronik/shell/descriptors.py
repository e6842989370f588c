"""How the file descriptors of this process are shared out: so many for files, for the links to other nodes, for the
process itself; what is left is for connections.

A node that takes more connections than it has descriptors can open no file any more. So the limit is raised as far as
the system lets it at the start, and connections stay below what is left.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

from chronik.shell.files import OPEN_FILES_MAX

# Where the system sets no bound of its own, or one in the billions. More connections than this one loop cannot serve.
LIMIT_MAX = 65_536
# Standard streams, event loop, ports, lock, what a first HTTP call loads; and two for each thread of the Files door,
# which replaces and syncs files that are not in its pool.
OWN = 40


class Descriptors(NamedTuple):
    """The shares. Together they are the limit, unless that is too small for a node."""

    limit: int
    files: int  # as many files stay open
    links: int  # to other nodes: for the node's own purposes, and for what clients have forwarded
    own: int = OWN

    @property
    def connections(self) -> int:
        """As many connections of clients, over all ports, may be open at the same time."""
        return max(self.limit - self.files - self.links - self.own, 1)

    def __str__(self) -> str:
        return (
            f"{self.limit} file descriptors: {self.files} for files, {self.links} for links to other nodes, "
            f"{self.own} for the process, {self.connections} for connections"
        )


def shared_out(limit: int) -> Descriptors:
    """What each gets of so many."""
    return Descriptors(limit, files=min(OPEN_FILES_MAX, max(limit // 4, 1)), links=limit // 8)


def raise_limit() -> int:
    """Set the process's soft limit as high as it may be, and return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return LIMIT_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems refuse what they call the hard limit
        return soft
    return wanted
