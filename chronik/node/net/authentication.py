"""Who is at the other end of a connection, before it has said anything: what its certificate says.

On a listener where clients show certificates, a connection is that of a node only where its principal is a super user:
what it says of itself counts for nothing else. On others there is nothing to go by, and what it says is believed.
"""

from __future__ import annotations

import asyncio

from chronik.api.call import Peer
from chronik.core.access.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from chronik.core.access.ssl_principal import distinguished_name, mapper_of
from chronik.core.config.sections.security import SecurityConfig


class Authentication:
    """For the connections of one listener."""

    def __init__(self, config: SecurityConfig, *, is_encrypted: bool) -> None:
        self._identifies = is_encrypted and config.identifies_clients
        self._name_of = mapper_of(config.ssl_principal_mapping_rules)
        self._super_users = config.super_principals

    def authenticate(self, peer: Peer, transport: asyncio.BaseTransport) -> None:
        """Raises NoMatchingRule: it has a certificate, and no rule makes a principal of that."""
        if not self._identifies:
            return
        peer.may_be_node = False  # whatever goes wrong from here on
        certificate = transport.get_extra_info("peercert")
        principal = ANONYMOUS  # without one, where certificates are requested only
        if certificate:
            principal = KafkaPrincipal(USER_TYPE, self._name_of(distinguished_name(certificate["subject"])))
        peer.authenticate_as(principal)
        peer.may_be_node = bool(certificate) and principal in self._super_users
