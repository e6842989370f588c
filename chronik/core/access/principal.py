"""Who a connection is authenticated as: Kafka's KafkaPrincipal."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class KafkaPrincipal(NamedTuple):
    """A type and a name, written `User:alice`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


# Of a connection that was not authenticated.
ANONYMOUS = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
