"""Replicas that an administrator chose by hand: whether they can be."""

from __future__ import annotations

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.partition import Replicas


def check_assignment(image: MetadataImage, replicas: Replicas, factor: int | None = None) -> None:
    """Raises Refused when these replicas, given by hand, cannot be. `factor`: how many there have to be."""
    problem: str | None = None
    unknown = [broker_id for broker_id in replicas if broker_id not in image.brokers]
    if not replicas:
        problem = "The manual partition assignment includes an empty replica list."
    elif unknown:
        problem = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
    elif len(frozenset(replicas)) < len(replicas):
        problem = f"The manual partition assignment includes a broker more than once: {list(replicas)}."
    elif factor is not None and len(replicas) != factor:
        problem = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )
    if problem is not None:
        raise Refused(Code.INVALID_REPLICA_ASSIGNMENT, problem)


def check_new_assignment(image: MetadataImage, number: int, replicas: Replicas, factor: int | None) -> None:
    """The same for a partition that does not exist yet: one of them must be able to lead it."""
    check_assignment(image, replicas, factor)
    if not any(image.is_active(broker_id) for broker_id in replicas):
        raise Refused(
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {number} are fenced "
            "or in controlled shutdown.",
        )
