"""Which group a fetch is for. It does not say: but its client has said it in other requests, by the same client id and
from the same host. Where only one group is known by those, it is that one.
"""

from __future__ import annotations

FORGET_US = 60_000_000  # a group that was not heard of for so long is no rival of another
CLIENTS_MAX = 10_000  # remembered; after that, all are learnt anew


class Readers:
    """Groups by their members' client id and host, as far as this node has heard of them."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, int]] = {}  # and when

    def heard(self, group: str, client_id: str, host: str, now_us: int) -> None:
        """A member of this group spoke."""
        groups = self._groups.get((client_id, host))
        if groups is None:
            if len(self._groups) >= CLIENTS_MAX:
                self._groups.clear()
            groups = self._groups[client_id, host] = {}
        elif len(groups) > 1:
            for rival in [rival for rival, at_us in groups.items() if now_us - at_us > FORGET_US]:
                del groups[rival]
        groups[group] = now_us

    def left(self, group: str, client_id: str, host: str) -> None:
        """No member of this group has that client id and host any more: a fetch of that name is not for it."""
        groups = self._groups.get((client_id, host))
        if groups is not None and groups.pop(group, None) is not None and not groups:
            del self._groups[client_id, host]

    def group_of(self, client_id: str, host: str, now_us: int) -> str | None:
        """The only group that it can be; None when there are several, or none."""
        groups = self._groups.get((client_id, host))
        if groups is None:
            return None
        if len(groups) > 1:
            groups = {group: at_us for group, at_us in groups.items() if now_us - at_us <= FORGET_US}
        return next(iter(groups)) if len(groups) == 1 else None
