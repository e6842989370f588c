"""The principal of a connection: the subject of its certificate, or the user that it logs in as (SASL).

A connection is that of a node only on a listener for nodes (`inter.broker.listener.name`, `controller.listener.names`)
and, where clients show certificates or log in there, only if its principal is a super user: what it says of itself
counts for nothing else. Where they do neither there is nothing to go by, and what it says is believed.

The user as which nodes log in to each other is known by the config: when all nodes start at once there is no metadata
yet that could be asked. All other users of SCRAM are in the metadata log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.api.call import Peer
from chronik.core.access.delegation_tokens import DelegationToken, TokenCredentials
from chronik.core.access.oauth import TokenKeys, Validator, unsecured_claims
from chronik.core.access.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from chronik.core.access.sasl import PLAIN, Credentials, NotReady, SaslLogin, SaslServer
from chronik.core.access.scram import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from chronik.core.access.ssl_principal import distinguished_name, mapper_of
from chronik.core.config.node import NodeConfig
from chronik.core.ports import Chance, Clock


class Authentication:
    """For the connections of all listeners."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        chance: Chance,
        credentials: Credentials,
        token_keys: TokenKeys | None = None,
        find_token: Callable[[str], DelegationToken | None] = lambda token_id: None,
    ) -> None:
        """`credentials` are those of the metadata log; it raises NotReady while they are not known. `token_keys`:
        those that sign tokens, where such are taken. `find_token`: the delegation tokens of the metadata log."""
        key = config.token_key
        tokens = None if key is None else TokenCredentials(key, find_token, clock.now_ms)
        self._identifying = frozenset(
            point.name
            for point in config.listeners.all
            if point.protocol == "SSL" and config.security.identifies_clients
        )
        self._node_listeners = config.listeners.node_listeners
        self._name_of = mapper_of(config.security.ssl_principal_mapping_rules)
        self._super_users = config.security.super_principals
        self._are_asked = bool(config.security.authorizer_class_name)  # where ACLs count, nothing is believed
        self._clock = clock
        decoy_key = chance.uuid() + chance.uuid()
        known = _with_node_user(config, chance, credentials)
        self._servers = {
            point.name: SaslServer(
                config.sasl.sasl_enabled_mechanisms,
                lambda: (chance.uuid() + chance.uuid()).hex(),
                decoy_key,
                config.login_of(point.name, PLAIN).users,
                known if point.name in self._node_listeners else credentials,
                config.sasl.connections_max_reauth_ms,
                _validator(config, point.name, clock, token_keys),
                clock.now_ms,
                tokens,
            )
            for point in config.listeners.all
            if point.is_sasl
        }

    def authenticate(
        self, peer: Peer, transport: asyncio.BaseTransport, on_login: Callable[[], None] = lambda: None
    ) -> None:
        """Raises NoMatchingRule: it has a certificate, and no rule makes a principal of that."""
        may_be_node, peer.may_be_node = peer.listener in self._node_listeners, False  # whatever goes wrong from here on
        server = self._servers.get(peer.listener)
        if server is not None:

            def logged_in(principal: KafkaPrincipal) -> None:
                peer.authenticate_as(principal)
                peer.may_be_node = may_be_node and principal in self._super_users
                on_login()

            peer.login = SaslLogin(server, self._clock.monotonic_ms, logged_in)
            return
        if peer.listener not in self._identifying:
            peer.may_be_node = may_be_node and (not self._are_asked or peer.principal in self._super_users)
            return
        certificate = transport.get_extra_info("peercert")
        principal = ANONYMOUS  # without one, where certificates are requested only
        if certificate:
            principal = KafkaPrincipal(USER_TYPE, self._name_of(distinguished_name(certificate["subject"])))
        peer.authenticate_as(principal)
        peer.may_be_node = may_be_node and bool(certificate) and principal in self._super_users


def _validator(config: NodeConfig, listener: str, clock: Clock, keys: TokenKeys | None) -> Validator | None:
    if not config.sasl.takes_tokens:
        return None
    unsecured, signed = config.unsecured_rules(listener), config.sasl.claim_rules
    if unsecured is not None:
        return lambda token: unsecured.check(unsecured_claims(token), clock.now_ms())
    assert keys is not None  # whatever builds a node sees to it
    return lambda token: signed.check(keys.claims(token), clock.now_ms())


def _with_node_user(config: NodeConfig, chance: Chance, credentials: Credentials) -> Credentials:
    """With the user as which nodes log in to each other, where that is by SCRAM."""
    login = config.node_login
    scram = SCRAM_MECHANISMS.get(config.sasl.sasl_mechanism_inter_broker_protocol)
    if login is None or login.username is None or scram is None:
        return credentials
    of_nodes = credential_of(scram, login.password.encode(), chance.uuid(), ITERATIONS_MIN)

    def known(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        if user == login.username and mechanism is scram:
            return of_nodes
        return credentials(user, mechanism)

    return known


__all__ = ["Authentication", "NotReady"]
