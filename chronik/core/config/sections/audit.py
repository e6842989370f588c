"""Where the audit trail goes, and how long it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import BOOLEAN, DAY_MS, LONG, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class AuditConfig(Section):
    """Where the audit trail goes, and how long it is kept."""

    chronik_audit_log: bool = setting(
        BOOLEAN,
        True,
        "Whether the audit trail goes to the node's log, as lines of JSON by chronik.audit.",
        dynamic=True,
    )
    chronik_audit_store: bool = setting(
        BOOLEAN, False, "Whether the audit trail goes to the topic __chronik_audit.", dynamic=True
    )
    chronik_audit_retention_ms: int = setting(
        LONG, 30 * DAY_MS, "How long __chronik_audit keeps it; read when that topic is created.", at_least(-1)
    )
