"""Which principal is which node's, as its registration in the metadata log says (docs/decisions/0039).

A node that starts hears votes before it knows what is committed. So what was last known is kept in a file beside the
logs, and counts until the image has caught up: a stolen id is refused then, too.
"""

from __future__ import annotations

import json
import logging

from chronik.core.access.node_principals import NodePrincipalRules
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.ports import Files

log = logging.getLogger(__name__)

FILE = "node-principals.json"


class NodePrincipals:
    """Asked for every connection that says it is a node."""

    def __init__(self, rules: NodePrincipalRules, image: MetadataImage, files: Files) -> None:
        self._rules = rules
        self._image = image
        self._files = files
        self._stored = _read(files)
        self._is_caught_up = False  # the image says all

    def may_be(self, node_id: int, principal: KafkaPrincipal) -> bool:
        return self._rules.may_be(node_id, principal, self.bound(node_id))

    def bound(self, node_id: int) -> str:
        """The principal that a node registered as; '' where none is known."""
        broker = self._image.brokers.get(node_id)
        if broker is not None and broker.principal:
            return broker.principal
        return "" if self._is_caught_up else self._stored.get(node_id, "")

    def metadata_changed(self, *, is_caught_up: bool) -> None:
        """Brokers have registered or are unregistered, or the image has caught up."""
        self._is_caught_up = self._is_caught_up or is_caught_up
        if not self._is_caught_up:
            return
        found = {broker.id: broker.principal for broker in self._image.brokers.values() if broker.principal}
        if found == self._stored:
            return
        self._stored = found
        try:
            self._files.replace(FILE, json.dumps({str(key): value for key, value in sorted(found.items())}).encode())
        except OSError as problem:
            log.warning("%s cannot be written: after a restart ids are not bound until then: %s", FILE, problem)


def _read(files: Files) -> dict[int, str]:
    try:
        found = json.loads(files.read_all(FILE))
        return {int(key): str(value) for key, value in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as problem:
        log.warning("%s cannot be read: ids are not bound until the metadata is there: %s", FILE, problem)
        return {}
