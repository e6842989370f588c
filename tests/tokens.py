"""Tokens for tests: an issuer with keys, and what it signs."""

from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

ISSUER, AUDIENCE = "https://issuer.example", "chronik"


class Issuer:
    """Signs tokens with its key; its set of keys is a file."""

    def __init__(self, folder: Path, key_id: str = "first") -> None:
        self.path = folder / "jwks.json"
        self.key: RSAKey | ECKey = RSAKey.generate_key(2048, {"kid": key_id})
        self.publish(self.key)

    def publish(self, *keys: Any) -> None:
        self.path.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))

    def another_key(self) -> RSAKey:
        """Of the same name."""
        return RSAKey.generate_key(2048, {"kid": str(self.key.kid)})

    @property
    def settings(self) -> dict[str, str]:
        """Of a node that takes its tokens."""
        return {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.path}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connection.failed.authentication.delay.ms": "10",
        }

    def token(self, key: Any = None, algorithm: str = "RS256", header: Any = None, **claims: Any) -> str:
        """Of alice, for five minutes, unless the claims say something else; None leaves one out."""
        now_s = int(time.time())
        said = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 300, **claims}
        key = key or self.key
        return str(
            jwt.encode(
                {"alg": algorithm, "kid": key.kid, **(header or {})},
                {name: value for name, value in said.items() if value is not None},
                key,
                algorithms=[algorithm],
            )
        )

    def with_public_key_as_secret(self) -> str:
        """Signed by HS256 with what everybody knows: the public key."""
        head = _part({"alg": "HS256", "kid": self.key.kid})
        signed = f"{head}.{self.token().split('.')[1]}"
        signature = hmac.digest(self.key.as_pem(private=False), signed.encode(), "sha256")
        return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def unsigned(**claims: Any) -> str:
    """With `alg: none`."""
    said = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": 1, "exp": int(time.time()) + 300, **claims}
    return f"{_part({'alg': 'none'})}.{_part(said)}."


def _part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
