"""The audit trail: logins and refused ones, denied operations, and every administrative change, with the principal that
asked, from where, for what, and what came of it. docs/audit.md has the schema.

An event is one JSON object on a line of the logger `chronik.audit` and, where `chronik.audit.store` is set, of a record
of the topic `__chronik_audit` (node/observe/audit_store.py). A flood of refusals fills neither: of each kind that
clients can cause at will so many a second are kept, and how many were not is said. Names are cut, and no value of a
setting, password or token is ever in an event.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from chronik.core.ports import Clock

log = logging.getLogger("chronik.audit")

SCHEMA_VERSION = 1
LOGIN, LOGIN_REFUSED, DENIED = "login", "login_refused", "denied"
CHANGE, OFFSETS, REFUSED = "change", "offsets", "refused"
LEFT_OUT = "left_out"
# Events of a kind in one second: few of those that a client without any right can cause. Programs that keep offsets by
# themselves commit all the time as one does that sets them by hand.
A_SECOND_MAX = {LOGIN: 200, LOGIN_REFUSED: 50, DENIED: 50, CHANGE: 1000, OFFSETS: 50, REFUSED: 50}
NAME_LENGTH_MAX = 256
RESOURCES_MAX = 100
PENDING_MAX = 20_000


class AuditedClient(Protocol):
    """The client of a request (api.context.Caller)."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener(self) -> str: ...

    @property
    def principal(self) -> object: ...


class Audit(Protocol):
    """Takes what happened."""

    def login(self, client: AuditedClient, mechanism: str) -> None: ...

    def login_refused(self, client: AuditedClient, reason: str) -> None: ...

    def denied(self, client: AuditedClient, api: str, operation: str, resource_type: str, name: str) -> None: ...

    def changed(self, client: AuditedClient, api: str, resources: Sequence[str], codes: Sequence[str]) -> None: ...


class Unaudited:
    """Where nothing is to be audited: in tests of other things."""

    def login(self, client: AuditedClient, mechanism: str) -> None: ...

    def login_refused(self, client: AuditedClient, reason: str) -> None: ...

    def denied(self, client: AuditedClient, api: str, operation: str, resource_type: str, name: str) -> None: ...

    def changed(self, client: AuditedClient, api: str, resources: Sequence[str], codes: Sequence[str]) -> None: ...


class AuditTrail:
    """One a node. Lines that are to be stored wait in `pending`, no more than the latest."""

    def __init__(self, node_id: int, clock: Clock, *, logs: Callable[[], bool] = lambda: True) -> None:
        self._node_id = node_id
        self._clock = clock
        self._logs = logs
        self.is_stored = False
        self.pending: deque[bytes] = deque()
        self.lost = 0  # that were to be stored and are not, since that was last said
        self.events = 0
        self._second = 0
        self._counts: dict[str, int] = {}  # in this second, by kind
        self._left_out: dict[str, int] = {}  # since that was last said

    # --- what happened

    def login(self, client: AuditedClient, mechanism: str) -> None:
        self._put(LOGIN, client, mechanism=mechanism)

    def login_refused(self, client: AuditedClient, reason: str) -> None:
        """Whatever the client said who it is is not in it: it did not show that it is."""
        self._put(LOGIN_REFUSED, client, reason=reason)

    def denied(self, client: AuditedClient, api: str, operation: str, resource_type: str, name: str) -> None:
        self._put(DENIED, client, api=api, operation=operation, resources=[f"{resource_type} {_cut(name)}"])

    def changed(self, client: AuditedClient, api: str, resources: Sequence[str], codes: Sequence[str]) -> None:
        """An administrative request was carried out, wholly or in part, or refused for another reason than a right."""
        kept = [_cut(resource) for resource in resources[:RESOURCES_MAX]]
        more: dict[str, Any] = {"more": len(resources) - RESOURCES_MAX} if len(resources) > RESOURCES_MAX else {}
        is_refused = bool(codes) and "NONE" not in codes
        problems = [code for code in codes if code != "NONE"]
        outcome = "refused" if is_refused else "partly" if problems else "done"
        kind = REFUSED if is_refused else OFFSETS if api == "offset_commit" else CHANGE
        self._put(kind, client, api=api, resources=kept, **more, outcome=outcome, codes=problems)

    # --- what becomes of it

    def _put(self, kind: str, client: AuditedClient, **fields: Any) -> None:
        now_ms = self._clock.now_ms()
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._counts.clear()
            self.say_what_is_missing()
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > A_SECOND_MAX[kind]:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        who = {
            "principal": _cut(str(client.principal)),
            "host": client.client_host,
            "listener": client.listener,
            "client_id": _cut(client.client_id),
        }
        self._write(now_ms, kind, {**who, **fields})

    def say_what_is_missing(self) -> None:
        """How many were left out; asked now and then as well, should no other event come."""
        if self._left_out:
            counts, self._left_out = self._left_out, {}
            self._write(self._clock.now_ms(), LEFT_OUT, {"counts": counts})

    def _write(self, now_ms: int, kind: str, fields: dict[str, Any]) -> None:
        self.events += 1
        line = json.dumps({"schema": SCHEMA_VERSION, "at_ms": now_ms, "node": self._node_id, "kind": kind, **fields})
        if self._logs():
            log.info("%s", line)
        if self.is_stored:
            self.pending.append(line.encode() + b"\n")
            while len(self.pending) > PENDING_MAX:
                self.pending.popleft()
                self.lost += 1

    def lost_line(self) -> bytes:
        """That so many are not in the topic; b"" where none is missing."""
        if not self.lost:
            return b""
        fields = {"schema": SCHEMA_VERSION, "at_ms": self._clock.now_ms(), "node": self._node_id, "kind": LEFT_OUT}
        return json.dumps({**fields, "counts": {"not_stored": self.lost}}).encode() + b"\n"


def _cut(text: str) -> str:
    return text if len(text) <= NAME_LENGTH_MAX else text[:NAME_LENGTH_MAX] + "..."
