"""Kafka's `sasl.jaas.config`: a line with the name of a login module and its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="node" password="secret" user_node="secret" user_alice="hers";

`username` and `password` are what a node logs in to others with; each `user_NAME` is a user that PLAIN knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_USER = "user_"
_MODULE = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\s*")
_OPTION = re.compile(r"""([\w.\-@]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))\s*""")


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """What such a line says. Its text hides the passwords."""

    username: str | None = None
    password: str = field(default="", repr=False)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords by name
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # all of them


def parse_jaas(text: str) -> JaasLogin:
    """Raises ValueError, without repeating what the line says: it has passwords."""
    options = jaas_options(text)
    users = {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}
    return JaasLogin(options.get("username"), options.get("password", ""), users, options)


def jaas_options(text: str) -> dict[str, str]:
    """What the line tells its module, as pairs. Raises ValueError as `parse_jaas`."""
    module = _MODULE.match(text)
    if module is None:
        raise ValueError("it must begin with the name of a login module and `required`")
    options: dict[str, str] = {}
    position = module.end()
    while position < len(text) and text[position] != ";":
        found = _OPTION.match(text, position)
        if found is None:
            raise ValueError(f'what begins at character {position} is not NAME="VALUE"')
        quoted = found[2] if found[2] is not None else found[3]
        options[found[1]] = found[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = found.end()
    if text[position:].strip() != ";":
        raise ValueError("it must end with a semicolon")
    return options
