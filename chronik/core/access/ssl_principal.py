"""From a client's certificate to its principal's name: Kafka's `ssl.principal.mapping.rules`.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=([^,]*),.*$/$1/L,DEFAULT

The first rule whose pattern is the whole distinguished name gives the name, in lower or upper case with L or U. DEFAULT
is the distinguished name itself. Where no rule matches the connection is refused, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

DEFAULT = "DEFAULT"
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|$)")
# Attribute types of a name as RFC 2253 writes them, by OpenSSL's names. Java writes others as dotted numbers.
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_EMAIL_ADDRESS = "1.2.840.113549.1.9.1"
_IA5_STRING = 0x16


class NoMatchingRule(Exception):
    """A certificate of which no rule makes a principal."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: DEFAULT
    replacement: str = ""
    case: str = ""

    def name_of(self, distinguished_name: str) -> str | None:
        if self.pattern is None:
            return distinguished_name
        found = self.pattern.fullmatch(distinguished_name)
        if found is None:
            return None
        name = found.expand(self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """As RFC 2253 and Java write it, last part first, of what Python's ssl says of a certificate."""
    return ",".join("+".join(_attribute(kind, value) for kind, value in part) for part in reversed(subject))


def _attribute(kind: str, value: str) -> str:
    if kind == "emailAddress":
        encoded = value.encode("ascii", "replace")
        return f"{_EMAIL_ADDRESS}=#{_IA5_STRING:02x}{len(encoded):02x}{encoded.hex()}"
    escaped = "".join("\\" + letter if letter in ',+"\\<>;' else letter for letter in value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    if escaped.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return f"{_SHORT.get(kind, kind)}={escaped}"


@lru_cache(maxsize=8)
def mapper_of(rules: str) -> Callable[[str], str]:
    """From a distinguished name to the principal's, or NoMatchingRule. Raises ValueError for rules that are none."""
    parsed = _parsed(rules)

    def name_of(distinguished: str) -> str:
        for rule in parsed:
            name = rule.name_of(distinguished)
            if name is not None:
                return name
        raise NoMatchingRule(f"No rules apply to {distinguished}, rules {rules}")

    return name_of


def _parsed(rules: str) -> list[_Rule]:
    text = rules.strip() or DEFAULT
    parsed: list[_Rule] = []
    position = 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ValueError(f"Invalid rule: `{text[position:]}`")
        default, pattern, replacement, case = found.groups()
        try:
            parsed.append(_Rule(None) if default else _rule(pattern, replacement, case))
        except re.error as problem:
            raise ValueError(f"Invalid rule: `{found.group().strip()}`: {problem}") from problem
        position = found.end()
    return parsed


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    """Raises re.error, also for a group that the pattern does not have: else each connection would find that out."""
    compiled, template = re.compile(pattern), _python(replacement)
    for group in map(int, re.findall(r"\\g<(\d+)>", template)):
        if group > compiled.groups:
            raise re.error(f"there is no group {group}")
    return _Rule(compiled, template, case)


def _python(replacement: str) -> str:
    """Java's `$1` as Python's `\\g<1>`."""
    return re.sub(r"\\?\$(\d+)", lambda found: f"\\g<{found[1]}>" if found[0][0] == "$" else found[0][1:], replacement)
