"""How clients and other nodes log in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronik.core.access.jaas import JaasLogin, parse_jaas
from chronik.core.access.oauth import OAUTHBEARER, ClaimRules
from chronik.core.access.sasl import NODE_MECHANISMS, SASL_MECHANISMS
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
CALLBACK = "sasl.server.callback.handler.class"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_KAFKAS = "org.apache.kafka.common.security.oauthbearer."
SECURED = (f"{_KAFKAS}OAuthBearerValidatorCallbackHandler", f"{_KAFKAS}secured.OAuthBearerValidatorCallbackHandler")
UNSECURED = f"{_KAFKAS}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


@dataclass(frozen=True, slots=True)
class SaslConfig(Section):
    """How clients and other nodes log in."""

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST, tuple(SCRAM_MECHANISMS), "How clients may log in.", some_of(*SASL_MECHANISMS)
    )
    sasl_mechanism_inter_broker_protocol: str = setting(
        STRING, "SCRAM-SHA-512", "How nodes log in to each other.", one_of(*NODE_MECHANISMS)
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
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        STRING, None, "Where the keys are that sign tokens (JWKS): https://, http:// or file://."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        LONG, 3_600_000, "How often the keys that sign tokens are fetched.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = setting(
        LONG, 100, "How long to wait after the keys could not be fetched; twice as long each further time.", at_least(1)
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = setting(
        LONG, 10_000, "How long to wait at most after the keys could not be fetched.", at_least(1)
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        LIST, (), "A token must be for one of these (aud); for any if empty."
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        STRING, None, "A token must be of this issuer (iss); of any if not set."
    )
    sasl_oauthbearer_scope_claim_name: str = setting(STRING, "scope", "The claim of a token with its scopes.")
    sasl_oauthbearer_sub_claim_name: str = setting(STRING, "sub", "The claim of a token that names its principal.")
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        INT, 30, "By how much the clocks of this node and of the one that issues tokens may differ.", at_least(0)
    )

    @property
    def claim_rules(self) -> ClaimRules:
        """What a token must say."""
        return ClaimRules(
            self.sasl_oauthbearer_expected_issuer,
            self.sasl_oauthbearer_expected_audience,
            self.sasl_oauthbearer_scope_claim_name,
            self.sasl_oauthbearer_sub_claim_name,
            self.sasl_oauthbearer_clock_skew_seconds * 1000,
        )

    @property
    def takes_tokens(self) -> bool:
        return OAUTHBEARER in self.sasl_enabled_mechanisms

    def check(self) -> None:
        url = self.sasl_oauthbearer_jwks_endpoint_url
        if url is not None and not url.startswith(("https://", "http://", "file://")):
            raise BadConfig(JWKS_URL, f"{JWKS_URL}: {url} begins with none of https://, http://, file://")


def is_jaas(key: str) -> bool:
    """Whether a key is for a line of JAAS: `sasl.jaas.config`, or that of one listener and mechanism
    (`listener.name.clients.plain.sasl.jaas.config`). They have passwords, so they are no settings that are shown. So
    is what validates tokens (`listener.name.clients.oauthbearer.sasl.server.callback.handler.class`)."""
    if key.startswith("listener.name."):
        return key.endswith(("." + JAAS, f".{OAUTHBEARER.lower()}.{CALLBACK}"))
    return key == JAAS


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


def unsecured_rules(lines: Mapping[str, str], listener: str) -> ClaimRules | None:
    """What a token that nothing has signed must say, where such are taken on this listener: None where they are not,
    which is so unless Kafka's unsecured validator is named. Raises BadConfig."""
    key = f"listener.name.{listener}.{OAUTHBEARER}.{CALLBACK}".lower()
    handler = lines.get(key, SECURED[0]).strip()
    if handler in SECURED:
        return None
    if handler != UNSECURED:
        raise BadConfig(key, f"{key}: {handler} is not known here; {SECURED[0]} or {UNSECURED}")
    options = login_of(lines, listener, OAUTHBEARER).options
    skew_ms = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
    if not skew_ms.isdecimal():
        raise BadConfig(JAAS, f"{JAAS}: unsecuredValidatorAllowableClockSkewMs is no number")
    return ClaimRules(
        scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
        name_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
        skew_ms=int(skew_ms),
        required_scope=tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
        needs_issue_time=False,
    )
