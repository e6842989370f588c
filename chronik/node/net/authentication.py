"""Who is at the other end of a connection, before it has said anything: what its certificate says.

A connection is that of a node only on a listener for nodes (`inter.broker.listener.name`, `controller.listener.names`)
and, where clients show certificates there, only if its principal is a super user: what it says of itself counts for
nothing else. Where they show none there is nothing to go by, and what it says is believed.
"""

from __future__ import annotations

import asyncio

from chronik.api.call import Peer
from chronik.core.access.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from chronik.core.access.ssl_principal import distinguished_name, mapper_of
from chronik.core.config.sections.listeners import ListenersConfig
from chronik.core.config.sections.security import SecurityConfig


class Authentication:
    """For the connections of all listeners."""

    def __init__(self, config: SecurityConfig, listeners: ListenersConfig) -> None:
        self._identifying = frozenset(
            point.name for point in listeners.all if point.protocol == "SSL" and config.identifies_clients
        )
        self._node_listeners = listeners.node_listeners
        self._name_of = mapper_of(config.ssl_principal_mapping_rules)
        self._super_users = config.super_principals

    def authenticate(self, peer: Peer, transport: asyncio.BaseTransport) -> None:
        """Raises NoMatchingRule: it has a certificate, and no rule makes a principal of that."""
        may_be_node, peer.may_be_node = peer.listener in self._node_listeners, False  # whatever goes wrong from here on
        if peer.listener not in self._identifying:
            peer.may_be_node = may_be_node
            return
        certificate = transport.get_extra_info("peercert")
        principal = ANONYMOUS  # without one, where certificates are requested only
        if certificate:
            principal = KafkaPrincipal(USER_TYPE, self._name_of(distinguished_name(certificate["subject"])))
        peer.authenticate_as(principal)
        peer.may_be_node = may_be_node and bool(certificate) and principal in self._super_users
