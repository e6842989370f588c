"""Delegation tokens. Their key (`delegation.token.secret.key`) is a secret: it is in no section, and never shown."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import DAY_MS, HOUR_MS, LONG, Section, at_least, setting

SECRET_KEY = "delegation.token.secret.key"


@dataclass(frozen=True, slots=True)
class DelegationConfig(Section):
    """Delegation tokens."""

    delegation_token_max_lifetime_ms: int = setting(
        LONG, 7 * DAY_MS, "How long a delegation token can be renewed.", at_least(1)
    )
    delegation_token_expiry_time_ms: int = setting(
        LONG, DAY_MS, "How long a delegation token lasts before it has to be renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        LONG, HOUR_MS, "How often delegation tokens that are over are removed.", at_least(1)
    )
