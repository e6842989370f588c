"""Which principal may say that it is which node.

Being a super user is not enough: a node's first registration binds its id to the principal it came as, and from then on
no other may use that id, until the broker is unregistered. `chronik.node.principals` names principals instead, or says
with `*` that every super user may be any node, as in Kafka. Where all nodes share one user there is nothing to tell
them apart by, and they trust each other with their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronik.core.access.acls import parse_principal
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal

ANY = "*"


@dataclass(frozen=True, slots=True)
class NodePrincipalRules:
    """What `chronik.node.principals` says."""

    is_any: bool = False  # every super user may be any node
    named: Mapping[int, frozenset[KafkaPrincipal]] = field(default_factory=dict)

    def may_be(self, node_id: int, principal: KafkaPrincipal, bound: str) -> bool:
        """Whether this principal may be that node, which registered as `bound` ('': it did not, or as nothing that is
        known). Where connections neither log in nor show certificates there is nothing to go by."""
        if self.is_any or principal == ANONYMOUS:
            return True
        named = self.named.get(node_id)
        if named is not None:
            return principal in named
        return bound in ("", str(principal))


def parse_node_principals(text: str) -> NodePrincipalRules:
    """From `1=User:CN=node1,O=x;2=User:node2`; an id may have several. Raises ValueError."""
    if text.strip() == ANY:
        return NodePrincipalRules(is_any=True)
    named: dict[int, frozenset[KafkaPrincipal]] = {}
    for entry in filter(None, map(str.strip, text.split(";"))):
        node_id, equals, principal = entry.partition("=")
        if not equals or not node_id.strip().isdecimal():
            raise ValueError(f"'{entry}' is not ID=TYPE:NAME, as 1=User:CN=node1")
        number = int(node_id)
        named[number] = named.get(number, frozenset()) | {parse_principal(principal.strip())}
    return NodePrincipalRules(named=named)
