"""How a member of a KIP-848 group gets from what it has to what it is to have: give up first, take then.

    STABLE ---- new target ----> UNREVOKED_PARTITIONS  while it still owns what it must give up
       ^                              |
       |                              v
       +--- all is there --- UNRELEASED_PARTITIONS     while others still own what it is to get

A partition moves only when its old owner has said that it no longer uses it, so that no two members ever have it.
"""

from __future__ import annotations

from collections.abc import Callable

from chronik.core.machines.groups.consumer_group import NONE, Current, MemberState, Partitions, TopicIdPartition


def reconcile(
    current: Current,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Current:
    """The member's next step. `owned` is what it says it uses, None when it did not say."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            return _next(current, current.epoch, target_epoch, target, owned, is_free)
        case MemberState.UNREVOKED_PARTITIONS:
            has_heard = current.previous_epoch == 0  # it joined again, and has nothing but what that response said
            if _still_owns(owned, current.revoking) and not (has_heard and owned is None):
                return current
            return _next(current, current.epoch + 1, target_epoch, target, owned, is_free)
        case _:
            return _next(current, current.epoch, target_epoch, target, owned, is_free)


def rejoined(before: Current, after: Current) -> Current:
    """A known member that joins says it has nothing. A late copy of its first request says so too, and its member may
    use what it had until it is fenced: so that stays with it until a member is heard of that knows the new epoch."""
    revoking = (before.assigned | before.revoking) - after.assigned
    if not revoking:
        return after
    return Current(after.epoch, 0, MemberState.UNREVOKED_PARTITIONS, after.assigned, revoking)


def _still_owns(owned: Partitions | None, revoking: Partitions) -> bool:
    return owned is None or not owned.isdisjoint(revoking)


def _next(
    current: Current,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[TopicIdPartition], bool],
) -> Current:
    kept = current.assigned & target
    revoking = current.assigned - target
    if revoking and _still_owns(owned, revoking):
        return _at(current, Current(epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking))
    wanted = target - kept
    free = frozenset(pair for pair in sorted(wanted) if is_free(pair))
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
    return _at(current, Current(target_epoch, current.epoch, state, kept | free, NONE))


def _at(current: Current, after: Current) -> Current:
    """`after`, unless only its previous epoch would differ: a member that waits must not write a record each time."""
    unchanged = (current.epoch, current.state, current.assigned, current.revoking) == (
        after.epoch,
        after.state,
        after.assigned,
        after.revoking,
    )
    return current if unchanged else after
