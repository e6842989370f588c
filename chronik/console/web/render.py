"""Templates and JSON. Every text that a template puts out is made plain and escaped, whatever it is: a template cannot
forget it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from chronik.client.words import byte_size, counted
from chronik.console.words import numbers, plain_lines, span, time_of
from chronik.inspect.live_model import sparkline

NOT_KNOWN = "–"


def environment() -> Environment:
    folder = files("chronik.console").joinpath("templates")

    def load(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    made = Environment(
        loader=FunctionLoader(load),
        autoescape=select_autoescape(default=True, default_for_string=True),
        finalize=harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": _number,
        "rate": _rate,
        "size": lambda size: NOT_KNOWN if size is None else byte_size(size),
        "counted": counted,
        "numbers": lambda found: numbers(found) or NOT_KNOWN,
        "known": lambda value: NOT_KNOWN if value is None or value == "" else value,
        "time": lambda at_ms: time_of(at_ms) or NOT_KNOWN,
        "span": lambda ms: NOT_KNOWN if ms is None or ms < 0 else span(ms / 1000),
        "spark": lambda samples: sparkline(samples, min(len(samples), 30)),
        "part": lambda text: quote(text, safe="", errors="backslashreplace"),
        "query": _query,
    }
    return made


def harmless(value: Any) -> Any:
    """Markup is our own; in all other texts nothing is left that could turn around or hide what is beside it."""
    return plain_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _query(pairs: Mapping[str, Any]) -> str:
    """For an address, without what is empty. Half of a pair of characters has no bytes, and is written as an escape."""
    given = {key: value for key, value in pairs.items() if value not in (None, "", False)}
    return urlencode(given, errors="backslashreplace")


def _number(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    if value is None:
        return NOT_KNOWN
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def as_json(page: Any) -> bytes:
    """The page's model, with every name as it is: what reads JSON does its own escaping."""
    return json.dumps(msgspec.to_builtins(page), indent=2).encode()  # in ASCII: half of a pair has no bytes
