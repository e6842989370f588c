"""What a setting may be: its type, default, allowed values and documentation, kept on the field that holds it.

    num_partitions: int = setting(INT, 1, "Partitions of a topic created without a number.", at_least(1))

is Kafka's `num.partitions`: a setting's name is its attribute with dots. `settings_of` gives the table of a
config class, which parsing, checking and DescribeConfigs all read.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, NamedTuple

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """The types of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


BOOLEAN, STRING, INT, SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

_WHOLE_NUMBER_BITS = {SHORT: 15, INT: 31, LONG: 63}


class Source(IntEnum):
    """Where a value comes from, in the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


class BadConfig(Exception):
    """A setting that does not exist (`nearest` is the name most like it) or a value it cannot have."""

    def __init__(self, key: str, message: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.nearest = nearest


class Allowed(NamedTuple):
    """A rule for values, and the same in words."""

    accepts: Callable[[Any], bool]
    words: str


class Synonym(NamedTuple):
    """A node setting that gives a topic setting its default; `factor` turns hours or minutes into milliseconds."""

    name: str
    factor: int = 1


def at_least(low: int) -> Allowed:
    return Allowed(lambda value: bool(value >= low), f"at least {low}")


def between(low: float, high: float) -> Allowed:
    return Allowed(lambda value: bool(low <= value <= high), f"between {low} and {high}")


def one_of(*values: str) -> Allowed:
    return Allowed(lambda value: value in values, f"one of {', '.join(values)}")


def some_of(*values: str) -> Allowed:
    return Allowed(
        lambda items: bool(items) and all(item in values for item in items), f"a list of {', '.join(values)}"
    )


def any_of(*values: str) -> Allowed:
    """As `some_of`, or none of them."""
    return Allowed(lambda items: all(item in values for item in items), f"a list of {', '.join(values)}, or empty")


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting under Kafka's name."""

    name: str
    type: ConfigType
    default: Any
    documentation: str
    allowed: Allowed | None
    is_dynamic: bool
    synonyms: tuple[Synonym, ...]
    shown_type: ConfigType  # what DescribeConfigs says, where that is not how we read it

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Any:
        """The value that `text` says. Raises BadConfig with what is allowed."""
        try:
            value = _parse(self.type, text.strip())
        except ValueError as problem:
            raise BadConfig(self.name, f"Invalid value '{text}' for {self.name}: {problem}") from problem
        if self.allowed is not None and not self.allowed.accepts(value):
            raise BadConfig(self.name, f"Invalid value '{text}' for {self.name}: must be {self.allowed.words}")
        return value

    def show(self, value: Any) -> str | None:
        """A value as Kafka writes it."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case tuple():
                return ",".join(value)
        return str(value)


def _parse(kind: ConfigType, text: str) -> Any:
    if kind is BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("must be true or false")
        return text.lower() == "true"
    if kind is LIST:
        return tuple(item.strip() for item in text.split(",") if item.strip())
    if kind is DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError("must be a number") from None
    if kind is STRING:
        return text
    bits = _WHOLE_NUMBER_BITS[kind]
    try:
        number = int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None
    if not -(2**bits) <= number < 2**bits:
        raise ValueError(f"must be a whole number of at most {bits + 1} bits")
    return number


def setting(
    kind: ConfigType,
    default: Any,
    documentation: str,
    allowed: Allowed | None = None,
    *,
    dynamic: bool = False,
    synonyms: tuple[Synonym, ...] = (),
    shown: ConfigType | None = None,
) -> Any:
    """A dataclass field that is a setting. `dynamic` ones can be altered while the node runs."""
    traits = {"type": kind, "documentation": documentation, "allowed": allowed, "is_dynamic": dynamic}
    return dataclasses.field(
        default=default, metadata={"setting": traits | {"synonyms": synonyms, "shown_type": shown or kind}}
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """Settings that belong together because the same part of a node needs them: that part is given the section, and
    nothing else of the config."""

    def check(self) -> None:
        """Raises BadConfig where these settings, each allowed by itself, do not go together."""

    def check_order(self, low: str, high: str) -> None:
        """Of two settings, by Kafka's names: the first must not be larger than the second."""
        low_value, high_value = (getattr(self, name.replace(".", "_")) for name in (low, high))
        if low_value > high_value:
            raise BadConfig(low, f"{low} ({low_value}) must not be larger than {high} ({high_value})")


def settings_of(config_class: type) -> dict[str, Setting]:
    """Every setting of a config class, by Kafka's name, sorted."""
    names = {
        field.name.replace("_", "."): field for field in dataclasses.fields(config_class) if "setting" in field.metadata
    }
    return {
        name: Setting(name=name, default=field.default, **field.metadata["setting"])
        for name, field in sorted(names.items())
    }


def unknown_key(key: str, known: Iterable[str], what: str) -> BadConfig:
    """The error for a key that is not in the table, with the nearest that is."""
    close = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    nearest = close[0] if close else None
    hint = f"; did you mean {nearest}?" if nearest else ""
    return BadConfig(key, f"Unknown {what} config name: {key}{hint}", nearest)


def parse_known(settings: dict[str, Setting], key: str, text: str, what: str) -> Any:
    """The value of one key of a table. Raises BadConfig for a key or a value that is not allowed."""
    known = settings.get(key)
    if known is None:
        raise unknown_key(key, settings, what)
    return known.parse(text)
