"""How clients and other nodes log in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronik.core.access.jaas import JaasLogin, parse_jaas
from chronik.core.access.sasl import SASL_MECHANISMS
from chronik.core.access.scram import SCRAM_MECHANISMS
from chronik.core.config.definitions import (
    INT,
    LIST,
    LONG,
    STRING,
    BadConfig,
    Section,
    at_least,
    one_of,
    setting,
    some_of,
)

JAAS = "sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class SaslConfig(Section):
    """How clients and other nodes log in."""

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST, tuple(SCRAM_MECHANISMS), "How clients may log in.", some_of(*SASL_MECHANISMS)
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        STRING, "SCRAM-SHA-512", "How nodes log in to each other.", one_of(*SASL_MECHANISMS)
    )
    sasl_server_max_receive_size: int = setting(
        INT, 524_288, "The largest request of a connection that has not logged in.", at_least(1)
    )
    connections_max_reauth_ms: int = setting(
        LONG, 0, "A connection has to log in anew after this time; 0 for never.", at_least(0)
    )
    connection_failed_authentication_delay_ms: int = setting(
        INT, 100, "A refused login is answered after this time.", at_least(0)
    )
    chronik_authentication_timeout_ms: int = setting(
        LONG, 10_000, "A connection that has not logged in after this time is closed.", at_least(1)
    )


def is_jaas(key: str) -> bool:
    """Whether a key is for a line of JAAS: `sasl.jaas.config`, or that of one listener and mechanism
    (`listener.name.clients.plain.sasl.jaas.config`). They have passwords, so they are no settings that are shown."""
    return key == JAAS or (key.startswith("listener.name.") and key.endswith("." + JAAS))


def login_of(lines: Mapping[str, str], listener: str, mechanism: str) -> JaasLogin:
    """What the line for this listener and mechanism says, or else that for all. Raises BadConfig."""
    key = f"listener.name.{listener}.{mechanism}.{JAAS}".lower()
    line = lines.get(key, lines.get(JAAS))
    if line is None:
        return JaasLogin()
    try:
        return parse_jaas(line)
    except ValueError as problem:
        raise BadConfig(JAAS, f"{key if key in lines else JAAS} cannot be read: {problem}") from problem
