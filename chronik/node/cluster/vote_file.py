"""Kafka's `quorum-state`: this node's epoch and vote, on disk before anything that follows from them is said."""

from __future__ import annotations

import logging

from chronik.core.errors import Corrupt
from chronik.core.ports import Files
from chronik.core.raft import state_file
from chronik.core.raft.ready import ElectionState

log = logging.getLogger(__name__)


class VoteFile:
    """The file, and what is in it."""

    def __init__(self, files: Files, directory: str) -> None:
        """Raises OSError."""
        self._files = files
        self._path = f"{directory}/{state_file.FILE_NAME}"
        self.saved = self._read()

    def _read(self) -> ElectionState:
        try:
            saved = state_file.decode(self._files.read_all(self._path))
            # An earlier process may have failed to sync its name: then the vote in it has not been given yet.
            self._files.open(self._path).sync()
            return saved
        except FileNotFoundError:
            return ElectionState(is_new=True)
        except Corrupt as problem:  # its vote is not known, so it votes for no node until it has caught up
            log.error("%s: this node has no vote until it has caught up", problem)
            return ElectionState(is_new=True)

    def save(self, election: ElectionState) -> None:
        """Raises OSError: then the vote has not been given."""
        self._files.replace(self._path, state_file.encode(election))
        self.saved = election
