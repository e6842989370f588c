"""Whether there surely is a group: only its coordinator knows, and which node that is only a node that is in touch with
the others. One that was cut off may take itself for the coordinator of groups that it has never heard of.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.client import suggest
from chronik.client.current_topics import TIMEOUT_S, Unsure, behind, current_topics
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import CANNOT_LOOK, cluster
from chronik.client.request import Address, NoAnswer, ask, written
from chronik.core.errors import Code


def unknown_group(addresses: Sequence[Address], group: str, names: Sequence[str], otherwise: str) -> ChronikError:
    """The error for a group that a node does not know: it is not there, or that is not sure."""
    try:
        is_there = _is_coordinated(addresses, group)
    except CANNOT_LOOK:
        is_there = False
    except NoAnswer as problem:
        return Unsure(
            f"whether there is a group {group} is not known: the node that was asked does not know it, and {problem}",
            "check that the nodes are up and reach each other",
        )
    return behind(f"group {group}") if is_there else suggest.unknown("group", group, names, otherwise)


def _is_coordinated(addresses: Sequence[Address], group: str) -> bool:
    """Raises NoAnswer, NotChronik."""
    from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest

    current = current_topics(addresses)
    node = next((each for each in cluster(addresses).nodes if each.id == current.node), None)
    if node is None:
        raise NoAnswer(f"where node {current.node} is, is not known")
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    (found,) = ask((node.host, node.port), asked, TIMEOUT_S).coordinators
    if found.error_code:
        raise NoAnswer(f"which node coordinates it is not known now ({Code(found.error_code).name})")
    coordinator = found.host, found.port
    listed = ask(coordinator, ListGroupsRequest(states_filter=(), types_filter=()), TIMEOUT_S)
    if listed.error_code:
        raise NoAnswer(f"{written(coordinator)}, which coordinates it, does not tell ({Code(listed.error_code).name})")
    return any(each.group_id == group for each in listed.groups)
