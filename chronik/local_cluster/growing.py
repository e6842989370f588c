"""Nodes that join a running cluster of this machine and leave it, without losing a replica.

A node that is added has the settings of the others, and a vote unless it is to be an observer. One that is removed
first gives its partitions to the others, then its vote, and is unregistered when it has stopped.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from chronik.client.cluster_view import Partition
from chronik.client.errors import ChronikError
from chronik.client.words import counted
from chronik.local_cluster import membership as requests
from chronik.local_cluster import processes
from chronik.local_cluster.directory import ClusterDirectory, ClusterNode, address_or_none, written
from chronik.local_cluster.files import in_words
from chronik.local_cluster.processes import STOP_TIMEOUT_S, NotReady
from chronik.local_cluster.secured import listeners
from chronik.shell.interrupts import Interrupts
from chronik.shell.ports import free_ports, is_taken

OBSERVER_TIMEOUT_S = 15.0
MOVE_STALL_TIMEOUT_S = 60.0
POLL_S = 0.1
# A new node has these of its own; all else is as on the nodes that are there.
OWN_SETTINGS = frozenset(("node.id", "listeners", "log.dirs", "http.address", "controller.quorum.voters"))

Note: TypeAlias = Callable[[str], None]
Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""A bar for so many steps, moved by calling what it gives."""


def add_node(cluster: ClusterDirectory, *, is_observer: bool, note: Note) -> tuple[ClusterNode, NotReady | None]:
    """The node, and why the cluster is not ready all the same, if so. Raises ChronikError; then it is not there."""
    requests.current_view(cluster)
    node = _new_node(cluster)
    try:
        cluster.save()  # before the launch: no process ever runs that `stop` and `status` do not know
        late = _launched(cluster, node)
    except BaseException:  # Ctrl-C too
        take_back(cluster, node, note)
        raise
    if not is_observer:
        _give_vote(cluster, node)
    _write_voters(cluster, note)
    return node, late


def remove_node(cluster: ClusterDirectory, node: ClusterNode, *, is_moved: bool, note: Note, progress: Progress) -> int:
    """How many partitions were moved to other nodes before it went. Raises ChronikError."""
    moved = _emptied(cluster, node.id, is_moved=is_moved, note=note, progress=progress)
    _let_go(cluster, node)
    _write_voters(cluster, note)
    return moved


def _new_node(cluster: ClusterDirectory) -> ClusterNode:
    """With the settings of another one. Raises ChronikError."""
    known = cluster.bootstrap
    usable = [node for node in cluster.nodes.values() if node.problem() is None]
    model = usable[0] if usable else cluster.node(min(cluster.nodes))  # whose config is an error that says why
    settings = {key: value for key, value in model.config.given.items() if key not in OWN_SETTINGS}
    host, port, number = model.address[0], _next_port(cluster), cluster.unused_number()
    own = {"listeners": f"{host}:{port}", "controller.quorum.bootstrap.servers": known}
    if cluster.security.is_there:
        own |= cluster.security.node_settings(number)
        own["listeners"] = listeners(host, port, free_ports(1, host)[0])
        own["controller.quorum.bootstrap.servers"] = ",".join(
            written(node.configured_address_for_nodes) for node in usable
        )
        with in_words(cluster.security.folder):
            cluster.security.add_node(number)
    http = f"{host}:{free_ports(1, host)[0]}" if model.http else ""
    return cluster.new_node(number, {**settings, **own, "http.address": http})


def _launched(cluster: ClusterDirectory, node: ClusterNode) -> NotReady | None:
    """Returns when it is one of the cluster; why the cluster is not ready all the same, if so. Raises ChronikError."""
    with Interrupts().listening() as interrupts:
        try:
            processes.launch(cluster, [node], interrupts, is_kept_when_late=True)
        except NotReady as late:
            if processes.view_from(node) is None:  # nodes answer when the cluster has taken them in
                raise
            return late
    return None


def take_back(cluster: ClusterDirectory, node: ClusterNode, note: Note) -> None:
    """As if it had never been added; unless it already holds what others may not have."""
    if processes.send(node, signal.SIGTERM) and processes.wait_until_gone([node], STOP_TIMEOUT_S):
        processes.send(node, signal.SIGKILL)
    try:
        view = requests.current_view(cluster)
        if view.held_by(node.id):
            note(f"node {node.id} was given partitions meanwhile: see `chronik cluster restart` and `remove`")
            return
        if view.controller_id is not None:  # without one it cannot have been registered
            requests.unregister(cluster, node.id)
    except ChronikError as problem:
        note(f"node {node.id} may be registered still: {problem.message}")
    del cluster.nodes[node.id]
    try:
        cluster.save()
    finally:
        shutil.rmtree(node.directory, ignore_errors=True)


def _write_voters(cluster: ClusterDirectory, note: Note) -> None:
    for problem in cluster.write_voters(requests.describe_quorum(cluster).voter_addresses):
        note(problem)


def _next_port(cluster: ClusterDirectory) -> int:
    """After the last node's, if that is free."""
    addresses = [address for node in cluster.nodes.values() if (address := address_or_none(node)) is not None]
    host, last = max(addresses, key=lambda address: address[1])
    return free_ports(1, host)[0] if is_taken(host, last + 1) else last + 1


def _give_vote(cluster: ClusterDirectory, node: ClusterNode) -> None:
    deadline = time.monotonic() + OBSERVER_TIMEOUT_S
    while time.monotonic() < deadline:
        quorum = requests.describe_quorum(cluster)
        if node.id in quorum.voters:
            return
        if node.id in quorum.observers:
            requests.add_voter(cluster, node, quorum.observers[node.id])
            return
        time.sleep(POLL_S)
    raise ChronikError(
        f"node {node.id} runs, but has no vote: the quorum does not see it", f"see its log, {node.log_path}"
    )


def _emptied(cluster: ClusterDirectory, number: int, *, is_moved: bool, note: Note, progress: Progress) -> int:
    """Returns when it holds nothing, and how many partitions have been moved for that. Raises ChronikError."""
    if len(cluster.nodes) == 1:
        raise ChronikError(f"node {number} is the only one", "end the cluster with `chronik cluster stop`")
    view = requests.current_view(cluster)
    held = view.held_by(number)
    if held and not is_moved:
        topic, partition = held[0]
        raise ChronikError(
            f"node {number} still holds {counted(len(held), 'partition')}, {topic}:{partition} among them",
            "say --move to move them to the other nodes first",
        )
    if held:
        others = [each for each in view.addresses if each != number]
        _move_away(cluster, number, plan_without(number, view.replicas, others), note, progress)
    return len(held)


def _let_go(cluster: ClusterDirectory, node: ClusterNode) -> None:
    """It loses its vote, stops, and is forgotten. Raises ChronikError."""
    quorum = requests.describe_quorum(cluster)
    if node.id in quorum.voters:
        requests.remove_voter(cluster, node.id, quorum.voters[node.id])
    if processes.send(node, signal.SIGTERM) and processes.wait_until_gone([node], STOP_TIMEOUT_S):
        raise ChronikError(f"node {node.id} would not stop", f"`chronik cluster kill {node.id}`, then remove it again")
    requests.unregister(cluster, node.id)
    del cluster.nodes[node.id]
    cluster.save()


def plan_without(
    number: int, replicas: Mapping[Partition, Sequence[int]], others: Iterable[int]
) -> dict[Partition, list[int]]:
    """Where the partitions of a node go: to the node that holds least, or to none where all others hold it already."""
    holdings = Counter(dict.fromkeys(others, 0))
    for nodes in replicas.values():
        holdings.update(each for each in nodes if each in holdings)
    targets: dict[Partition, list[int]] = {}
    for partition, nodes in sorted(replicas.items()):
        if number not in nodes:
            continue
        free = [each for each in holdings if each not in nodes]
        if not free:
            targets[partition] = [each for each in nodes if each != number]
            continue
        heir = min(free, key=lambda each: (holdings[each], each))
        holdings[heir] += 1
        targets[partition] = [heir if each == number else each for each in nodes]
    return targets


def _move_away(
    cluster: ClusterDirectory, number: int, targets: Mapping[Partition, list[int]], note: Note, progress: Progress
) -> None:
    """Returns when the node holds none of them any more."""
    only = [f"{topic}:{partition}" for (topic, partition), nodes in targets.items() if not nodes]
    if only:
        raise ChronikError(f"there is no other node to move {only[0]} to", "add one first with `chronik cluster add`")
    before = requests.current_view(cluster).replicas
    fewer = sum(len(nodes) < len(before[partition]) for partition, nodes in targets.items())
    if fewer:
        note(f"{counted(fewer, 'partition')} will have one replica less: there are not enough other nodes")
    requests.move(cluster, targets)
    left, moved_at = len(targets), time.monotonic()
    with progress(left) as advance:
        while left:
            time.sleep(POLL_S)
            now_left = len(requests.current_view(cluster).held_by(number))
            if now_left != left:
                advance(left - now_left)
                left, moved_at = now_left, time.monotonic()
            elif time.monotonic() - moved_at > MOVE_STALL_TIMEOUT_S:
                raise ChronikError(
                    f"{counted(left, 'partition')} of node {number} do not move",
                    "see that the other nodes run with `chronik cluster status`, then try again",
                )
