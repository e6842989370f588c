"""A live view as JSON, for `chronik watch --json` and every other program that shows one."""

from __future__ import annotations

from typing import Any

from chronik.inspect.live_model import LiveView, Row


def as_json(view: LiveView) -> dict[str, Any]:
    """Everything, internal topics too: what reads it can filter. What is not known is null."""
    totals = view.totals
    return {
        "nodes": [{"id": node, "answers": True, "reason": None} for node in view.alive]
        + [{"id": node, "answers": False, "reason": reason} for node, reason in view.silent.items()],
        "tracing": view.is_tracing,
        "known_seconds": _rounded(view.known_s),
        "totals": {
            "partitions": totals.partitions,
            "lagging": totals.lagging,
            "under_replicated": totals.under_replicated,
            "without_leader": totals.leaderless,
            "largest_gap": totals.gap_largest,
            "largest_gap_at": totals.gap_largest_at,
            "in_per_s": _rounded(totals.in_per_s),
            "out_per_s": _rounded(totals.out_per_s),
        },
        "partitions": [_partition(row) for row in view.rows],
        "groups": [
            {"group": group.group, "state": group.state, "members": group.members, "lag": group.lag}
            for group in view.groups
        ],
        "stalls": [
            {
                "cause": str(verdict.cause),
                "summary": verdict.summary,
                "evidence": list(verdict.evidence),
                "advice": verdict.advice,
                "since_us": verdict.since_us,
                "topic": verdict.topic,
                "partition": verdict.partition if verdict.partition >= 0 else None,
                "group": verdict.group,
                "client_id": verdict.client_id,
                "host": verdict.host,
                "node": verdict.node if verdict.node >= 0 else None,
            }
            for verdict in view.verdicts
        ],
    }


def _partition(row: Row) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "leader": row.leader,
        "leader_answers": row.is_heard or row.is_leader_unsure,
        "leader_is_sure": row.is_heard,
        "leader_epoch": row.leader_epoch,
        "log_start": row.log_start,
        "last_stable_offset": row.last_stable_offset,
        "watermark": row.watermark,
        "next_offset": row.next_offset,
        "gap": row.gap,
        "in_sync": list(row.in_sync),
        "out_of_sync": list(row.out_of_sync),
        "lag_records": row.lag_records,
        "lag_ms": row.lag_ms,
        "followers": [
            {
                "node": follower.node,
                "in_sync": follower.is_in_sync,
                "lag_records": follower.lag_records,
                "lag_ms": follower.lag_ms,
            }
            for follower in row.followers
        ],
        "in_per_s": _rounded(row.in_per_s),
        "out_per_s": _rounded(row.out_per_s),
        "size_bytes": row.size_bytes,
        "offline": row.offline,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
