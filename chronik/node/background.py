"""What a node does by itself while it serves clients, started and stopped together."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.node.cleaner import Cleaner
from chronik.node.housekeeping import Housekeeping
from chronik.node.observe.audit_store import AuditStore
from chronik.node.observe.tracing import Tracing
from chronik.node.replication.fetchers import Fetchers
from chronik.node.replication.in_sync_upkeep import InSyncUpkeep


@dataclass(frozen=True, slots=True)
class Background:
    """Replication by fetching and the upkeep of in-sync sets; periodic work on logs, compaction; the trace, the audit
    trail."""

    fetchers: Fetchers
    in_sync_upkeep: InSyncUpkeep
    housekeeping: Housekeeping
    cleaner: Cleaner
    tracing: Tracing
    audit_store: AuditStore

    def start(self) -> None:
        self.fetchers.start()
        self.in_sync_upkeep.start()
        self.housekeeping.start()
        self.cleaner.start()
        self.tracing.start()
        self.audit_store.start()

    async def stop_replication(self) -> None:
        """Before the quorum stops: the in-sync sets are asked of the controller."""
        await self.in_sync_upkeep.stop()
        await self.fetchers.stop()

    async def stop_upkeep(self) -> None:
        """When no request is under way any more."""
        await self.cleaner.stop()
        await self.housekeeping.stop()
