"""A data directory's first start, which may be refused: then the directory is as it was.

What was wrong may have been the very number or cluster that a node writes into its directory first, and that the next
start must match: after the mistake is corrected, the directory must not belong to any node yet. So nothing that was
there is touched, and of what is new the few things that a node makes before its cluster knows of it go again. A vote
that may have been given stays, and the directory with it: given again it would elect two leaders.
"""

from __future__ import annotations

from chronik.core.machines.metadata.names import METADATA_TOPIC
from chronik.core.ports import Files
from chronik.core.raft import state_file
from chronik.node.cluster.identity import META, is_known_to_a_cluster
from chronik.shell.join_checks import FOUND_VOTERS

METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"
VOTE = f"{METADATA_DIRECTORY}/{state_file.FILE_NAME}"
MADE = (METADATA_DIRECTORY, FOUND_VOTERS, META)  # the last one last: a directory that is half undone is still ours


class FirstStart:
    """Made before anything is written, it remembers what was there."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._found = frozenset(files.names(""))

    def can_be_undone(self, is_voter: bool) -> bool:
        files = self._files
        if META in self._found or (is_voter and files.exists(VOTE)):
            return False
        return not is_known_to_a_cluster(files)

    def undo(self) -> None:
        """Raises OSError."""
        for name in MADE:
            if name not in self._found:
                self._files.remove(name)
