"""Who this node is, written in its data directory as Kafka does: `meta.properties`."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from chronik.core.config.parse import parse_properties
from chronik.core.ports import Chance, Files

META = "meta.properties"
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
    written_format = found.get("chronik.format", "")
    if not written_format.isdecimal():
        raise WrongDirectory(f"{META} there was not written by chronik")
    if int(written_format) > FORMAT:
        raise WrongDirectory(f"it has format {written_format}, this version knows format {FORMAT}")
    if found.get("node.id") != str(node_id):
        raise WrongDirectory(f"it belongs to node {found.get('node.id')}, this is node {node_id}")
    return Identity(node_id, found.get("cluster.id", ""))


def _write(files: Files, identity: Identity) -> None:
    lines = (
        "version=1",
        f"cluster.id={identity.cluster_id}",
        f"node.id={identity.node_id}",
        f"chronik.format={FORMAT}",
    )
    files.replace(META, ("\n".join(lines) + "\n").encode())
