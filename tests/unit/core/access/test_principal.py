"""A principal as Kafka writes it."""

from __future__ import annotations

from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal


def test_a_principal_is_written_with_its_type() -> None:
    assert str(KafkaPrincipal("User", "alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_principals_are_the_same_by_type_and_name() -> None:
    assert KafkaPrincipal("User", "ANONYMOUS") == ANONYMOUS
    assert KafkaPrincipal("Group", "ANONYMOUS") != ANONYMOUS
