"""Which principal may be which node."""

from __future__ import annotations

import pytest

from chronik.core.access.node_principals import parse_node_principals
from chronik.core.access.principal import ANONYMOUS, KafkaPrincipal

ONE, TWO = KafkaPrincipal("User", "CN=node1,O=x"), KafkaPrincipal("User", "node2")


def test_an_id_is_that_of_the_principal_that_registered_with_it() -> None:
    rules = parse_node_principals("")

    assert rules.may_be(1, ONE, str(ONE))
    assert not rules.may_be(1, TWO, str(ONE))
    assert rules.may_be(1, TWO, ""), "nothing has registered with it yet"


def test_where_connections_say_nothing_nothing_is_checked() -> None:
    assert parse_node_principals("").may_be(1, ANONYMOUS, str(ONE))


def test_what_the_setting_names_counts_and_not_what_registered() -> None:
    rules = parse_node_principals("1=User:CN=node1,O=x; 2=User:node2;2=User:CN=node1,O=x;")

    assert rules.may_be(1, ONE, str(TWO))
    assert not rules.may_be(1, TWO, str(TWO))
    assert rules.may_be(2, ONE, str(TWO)), "an id may have several while they are changed"
    assert not rules.may_be(3, ONE, str(TWO)), "an id that it does not name"


def test_with_a_star_every_super_user_may_be_any_node() -> None:
    assert parse_node_principals("*").may_be(1, TWO, str(ONE))


@pytest.mark.parametrize("text", ["User:node1", "1", "1=node1", "x=User:node1", "-1=User:a"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_node_principals(text)
