"""Which node of which cluster a data directory belongs to, kept in it as Kafka does: `meta.properties`.

A line of ours says that the directory is new: no cluster knows yet that its node has nothing on this disk. It goes when
one does, so that a crash in between is not forgotten.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace

from crc32c import crc32c

from chronik.core.config.definitions import BadConfig
from chronik.core.config.parse import parse_properties
from chronik.core.ports import Chance, Files

META = "meta.properties"
CHECKSUM = "chronik.checksum"  # of all other lines
UNREGISTERED = "chronik.unregistered"
BROKER_EPOCH = "chronik.broker.epoch"
BEFORE_CHECKSUMS = frozenset({"version", "cluster.id", "node.id", "chronik.format"})  # all that a file without has
UNKNOWN_EPOCH = -1
FORMAT = 1  # of the data directory; a newer one is not touched


class CannotStart(Exception):
    """Nothing that trying again would change: the operator has to do something first."""


class WrongDirectory(CannotStart):
    """The data directory belongs to another node or cluster, or to a newer version of this program."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A node of a cluster. `was_registered`: its cluster knows of this very directory; `broker_epoch`: since when."""

    node_id: int
    cluster_id: str
    was_registered: bool = True
    broker_epoch: int = UNKNOWN_EPOCH


def settle(files: Files, node_id: int, chance: Chance, cluster_id: str | None = None) -> Identity:
    """The identity the directory has, or from now on a new one. Raises WrongDirectory, OSError."""
    identity = proposed(files, node_id, chance, cluster_id)
    if not files.exists(META):
        _write(files, identity)
    return identity


def proposed(files: Files, node_id: int, chance: Chance, cluster_id: str | None = None) -> Identity:
    """The identity the directory has, or could have, in the cluster that was configured if any; nothing is written.
    Raises WrongDirectory."""
    try:
        found = _read(files)
    except FileNotFoundError:
        own_cluster_id = base64.urlsafe_b64encode(chance.uuid()).decode().rstrip("=")
        return Identity(node_id, cluster_id or own_cluster_id, was_registered=False)
    checksum = found.pop(CHECKSUM, None)
    if checksum is not None and checksum != _checksum(found):
        raise WrongDirectory(f"{META} there is damaged: its checksum does not hold")
    written_format = found.get("chronik.format", "")
    if not written_format.isdecimal():
        raise WrongDirectory(f"{META} there was not written by chronik")
    if checksum is None and not found.keys() <= BEFORE_CHECKSUMS:
        raise WrongDirectory(f"{META} there is damaged: its checksum is gone")
    if int(written_format) > FORMAT:
        raise WrongDirectory(f"it has format {written_format}, this version knows format {FORMAT}")
    if found.get("node.id") != str(node_id):
        raise WrongDirectory(f"it belongs to node {found.get('node.id')}, this is node {node_id}")
    found_cluster_id = found.get("cluster.id", "")
    if cluster_id is not None and cluster_id != found_cluster_id:
        raise WrongDirectory(f"it belongs to the cluster {found_cluster_id}, this node to {cluster_id} (cluster.id)")
    epoch = found.get(BROKER_EPOCH, "")
    broker_epoch = int(epoch) if epoch.isdecimal() else UNKNOWN_EPOCH
    return Identity(node_id, found_cluster_id, UNREGISTERED not in found, broker_epoch)


def is_known_to_a_cluster(files: Files) -> bool:
    """Whether a cluster counts on what its node has in this directory."""
    try:
        return UNREGISTERED not in _read(files)
    except FileNotFoundError:
        return False


def registered(files: Files, identity: Identity, broker_epoch: int = UNKNOWN_EPOCH) -> Identity:
    """The cluster knows of this directory, by this epoch. Raises OSError."""
    known = replace(identity, was_registered=True, broker_epoch=broker_epoch)
    if known == identity:
        return identity
    _write(files, known)
    return known


def _read(files: Files) -> dict[str, str]:
    """Its lines as they are; a damaged one may not even be a setting. Raises WrongDirectory, OSError."""
    try:
        return parse_properties(files.read_all(META).decode("utf-8", "replace"))
    except BadConfig as problem:
        raise WrongDirectory(f"{META} there is damaged: {problem}") from problem


def _write(files: Files, identity: Identity) -> None:
    values = {"version": "1", "cluster.id": identity.cluster_id, "node.id": str(identity.node_id)}
    values["chronik.format"] = str(FORMAT)
    if not identity.was_registered:
        values[UNREGISTERED] = "true"
    if identity.broker_epoch != UNKNOWN_EPOCH:
        values[BROKER_EPOCH] = str(identity.broker_epoch)
    values[CHECKSUM] = _checksum(values)
    files.replace(META, "".join(f"{key}={value}\n" for key, value in values.items()).encode())


def _checksum(values: dict[str, str]) -> str:
    return f"{crc32c(repr(sorted(values.items())).encode()):08x}"
