"""Lines of JAAS."""

from __future__ import annotations

import pytest

from chronik.core.access.jaas import parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_name_password_and_users_are_read() -> None:
    login = parse_jaas(f'{MODULE} required username="node" password="a \\"b" user_alice=\'c;d\'  user_bob=e ;')

    assert (login.username, login.password) == ("node", 'a "b')
    assert login.users == {"alice": "c;d", "bob": "e"}


def test_passwords_are_not_in_its_text() -> None:
    assert "secret" not in repr(parse_jaas(f'{MODULE} required username="u" password="secret" user_a="secret";'))


@pytest.mark.parametrize(
    "text", ["", MODULE, f'{MODULE} required username="secret"', f"{MODULE} required secret;", f'{MODULE} maybe a="b";']
)
def test_what_is_no_such_line_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_jaas(text)

    assert "secret" not in str(caught.value)
