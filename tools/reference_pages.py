"""Writes the tables of docs/configuration.md and docs/metrics.md from the code: `python -m tools.reference_pages`.

The text around the tables is written by hand. A tidy test fails when a page does not say what the code says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chronik.core.config.definitions import INT_MAX, LONG_MAX, Setting
from chronik.core.config.group import GROUP_SETTINGS
from chronik.core.config.node import ALIASES, NODE_SETTINGS
from chronik.core.config.topic import TOPIC_SETTINGS
from chronik.core.config.without_effect import WITHOUT_EFFECT
from chronik.trace.exposition import FAMILIES, FOLLOWER_FAMILIES, OFFLINE, PARTITION_FAMILIES

DOCS = Path(__file__).resolve().parent.parent / "docs"
_TABLE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with each of its tables as the code has it now."""
    return _TABLE.sub(lambda found: f"{found[1]}{''.join(TABLES[found[2]]())}{found[3]}", page)


def node_settings() -> Iterator[str]:
    yield from _rows("setting", "default", "type", "what it does", "can be altered while running")
    for known in NODE_SETTINGS.values():
        yield _row(f"`{known.name}`", _default(known), _type(known), _meaning(known), "yes" if known.is_dynamic else "")


def topic_settings() -> Iterator[str]:
    yield from _with_synonyms(TOPIC_SETTINGS.values())


def group_settings() -> Iterator[str]:
    yield from _with_synonyms(GROUP_SETTINGS.values())


def _with_synonyms(settings: Iterable[Setting]) -> Iterator[str]:
    yield from _rows("setting", "default", "type", "what it does", "default comes from")
    for known in settings:
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in known.synonyms)
        yield _row(f"`{known.name}`", _default(known), _type(known), _meaning(known), synonyms)


def aliases() -> Iterator[str]:
    yield from _rows("name", "means")
    for name, meant in sorted(ALIASES.items()):
        yield _row(f"`{name}`", f"`{meant}`")


def passed_over() -> Iterator[str]:
    yield ", ".join(f"`{name}`" for name in sorted(WITHOUT_EFFECT)) + "\n"


def node_metrics() -> Iterator[str]:
    yield from _rows("metric", "type", "labels", "meaning")
    for family in FAMILIES:
        yield _row(f"`{family.name}`", family.kind, _labels(family.labels), family.documentation)


def partition_metrics() -> Iterator[str]:
    yield from _rows("metric", "type", "labels", "meaning")
    for family in (*PARTITION_FAMILIES, OFFLINE):
        yield _row(f"`{family.name}`", "gauge", _labels(("topic", "partition")), family.documentation)
    for family in FOLLOWER_FAMILIES:
        yield _row(f"`{family.name}`", "gauge", _labels(("topic", "partition", "follower")), family.documentation)


TABLES: dict[str, Callable[[], Iterable[str]]] = {
    "node-settings": node_settings,
    "topic-settings": topic_settings,
    "group-settings": group_settings,
    "aliases": aliases,
    "passed-over": passed_over,
    "node-metrics": node_metrics,
    "partition-metrics": partition_metrics,
}


def _rows(*titles: str) -> Iterator[str]:
    yield _row(*titles)
    yield _row(*("---" for _ in titles))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _labels(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def _default(known: Setting) -> str:
    match known.default:
        case None:
            return "not set"
        case value if value is not True and value in (INT_MAX, LONG_MAX):
            return "no limit"
    shown = known.show(known.default)
    return f"`{shown}`" if shown else "empty"


def _type(known: Setting) -> str:
    return known.type.name.lower()


def _meaning(known: Setting) -> str:
    if known.allowed is None:
        return known.documentation
    return f"{known.documentation} Must be {known.allowed.words}."


def main() -> None:
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if with_tables(text) != text:
            page.write_text(with_tables(text), encoding="utf-8")


if __name__ == "__main__":
    main()
