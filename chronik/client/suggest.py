"""'Did you mean …?': the nearest right name for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from chronik.client.errors import ChronikError
from chronik.core.config.topic import TOPIC_SETTINGS


def nearest(wrong: str, right_names: Iterable[str]) -> str | None:
    """The right name most like the wrong one, None when nothing is near. Case, `_` and `-` do not count."""
    by_plain_name = {_plain(name): name for name in sorted(right_names)}
    found = difflib.get_close_matches(_plain(wrong), by_plain_name, n=1, cutoff=0.6)
    return by_plain_name[found[0]] if found else None


def unknown(kind: str, wrong: str, right_names: Iterable[str], otherwise: str | None = None) -> ChronikError:
    """The error for a name that does not exist: with the nearest that does, else with what to do `otherwise`."""
    near = nearest(wrong, right_names)
    return ChronikError(f"no {kind} {wrong}", otherwise if near is None else f"did you mean {near}?")


def unknown_topic_config(config: Mapping[str, str | None]) -> ChronikError | None:
    """The error for the first key that is no topic config, None when all are."""
    for key in config:
        if key not in TOPIC_SETTINGS:
            near = nearest(key, TOPIC_SETTINGS)
            hint = f"did you mean {near}?" if near else "`chronik topic describe TOPIC --all` lists the names"
            return ChronikError(f"no topic config {key}", hint)
    return None


def _plain(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")
