"""Who this node is, written in its data directory as Kafka does: `meta.properties`."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from crc32c import crc32c

from chronik.core.config.parse import parse_properties
from chronik.core.ports import Chance, Files

META = "meta.properties"
CHECKSUM = "chronik.checksum"  # of all other lines
FORMAT = 1  # of the data directory; a newer one is not touched


class WrongDirectory(Exception):
    """The data directory belongs to another node, or to a newer version of this program."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A node of a cluster."""

    node_id: int
    cluster_id: str


def settle(files: Files, node_id: int, chance: Chance) -> Identity:
    """The identity the directory has, or a new one. Raises WrongDirectory."""
    try:
        found = parse_properties(files.read_all(META).decode("utf-8", "replace"))
    except FileNotFoundError:
        cluster_id = base64.urlsafe_b64encode(chance.uuid()).decode().rstrip("=")
        _write(files, Identity(node_id, cluster_id))
        return Identity(node_id, cluster_id)
    checksum = found.pop(CHECKSUM, None)
    if checksum is not None and checksum != _checksum(found):
        raise WrongDirectory(f"{META} there is damaged: its checksum does not hold")
    written_format = found.get("chronik.format", "")
    if not written_format.isdecimal():
        raise WrongDirectory(f"{META} there was not written by chronik")
    if int(written_format) > FORMAT:
        raise WrongDirectory(f"it has format {written_format}, this version knows format {FORMAT}")
    if found.get("node.id") != str(node_id):
        raise WrongDirectory(f"it belongs to node {found.get('node.id')}, this is node {node_id}")
    return Identity(node_id, found.get("cluster.id", ""))


def _write(files: Files, identity: Identity) -> None:
    values = {"version": "1", "cluster.id": identity.cluster_id, "node.id": str(identity.node_id)}
    values["chronik.format"] = str(FORMAT)
    values[CHECKSUM] = _checksum(values)
    files.replace(META, "".join(f"{key}={value}\n" for key, value in values.items()).encode())


def _checksum(values: dict[str, str]) -> str:
    return f"{crc32c(repr(sorted(values.items())).encode()):08x}"
