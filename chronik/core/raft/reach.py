"""How far the requests of others may take this node's epoch.

Raft believes any epoch that is later than its own. A packet that names one near the end of the numbers would then leave
no epoch to be elected in. So requests take the epoch on by no more than `EPOCHS_A_WINDOW` in a while: at that pace the
numbers last for weeks of nothing else, and an honest quorum uses a few epochs for each election. A node that is further
behind than that is not locked out: it asks others itself, and the epoch in an answer to its own question has no such
bound, since it comes from the address where this node asked (docs/decisions/0023).
"""

from __future__ import annotations

EPOCH_MAX = 2**31 - 1  # as wide as it is on the wire, in batches and in the file with the vote
EPOCHS_A_WINDOW = 1000


class EpochReach:
    """Counts the epochs that requests have taken this node on in a window of time."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._since_ms = 0
        self._taken = 0

    def toward(self, own_epoch: int, epoch: int, now_ms: int) -> int:
        """The epoch that a request may take this node to now, on its way to that one; it counts."""
        if epoch <= own_epoch:
            return own_epoch
        if now_ms - self._since_ms >= self._window_ms:
            self._since_ms, self._taken = now_ms, 0
        steps = min(epoch, EPOCH_MAX) - own_epoch
        taken = max(min(steps, EPOCHS_A_WINDOW - self._taken), 0)
        self._taken += taken
        return own_epoch + taken

    def take(self, own_epoch: int, epoch: int, now_ms: int) -> bool:
        """Whether a request may take this node from its epoch to that one; if so, it counts."""
        if epoch <= own_epoch:
            return True
        if now_ms - self._since_ms >= self._window_ms:
            self._since_ms, self._taken = now_ms, 0
        if epoch > EPOCH_MAX or self._taken + epoch - own_epoch > EPOCHS_A_WINDOW:
            return False
        self._taken += epoch - own_epoch
        return True
