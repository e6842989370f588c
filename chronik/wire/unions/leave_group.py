"""LeaveGroup: one member up to version 2, many from version 3."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyLeavingMember:
    """Who leaves, and why (from version 5)."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyLeaveGroupRequest:
    """`members` from version 3, `member_id` before."""

    group_id: str = ""
    member_id: str = ""
    members: tuple[AnyLeavingMember, ...] = ()
