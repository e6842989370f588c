"""What a topic may be called."""

from __future__ import annotations

import re

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
METADATA_TOPIC = "__cluster_metadata"
TRACE_TOPIC = "__chronik_trace"
AUDIT_TOPIC = "__chronik_audit"

INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TRACE_TOPIC, AUDIT_TOPIC)
NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def problem_with(name: str) -> str | None:
    """Why a topic cannot be called this; None when it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"Topic name is invalid: '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_key(name: str) -> str | None:
    """Names that differ only in '.' and '_' would share their metrics, so they collide; None if it has neither."""
    return name.replace(".", "_") if "." in name or "_" in name else None
