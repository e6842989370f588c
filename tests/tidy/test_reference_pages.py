"""The tables of settings and metrics in docs/ say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chronik.core.config.node import NODE_SETTINGS
from chronik.core.config.topic import TOPIC_SETTINGS
from chronik.trace.exposition import FAMILIES, PARTITION_FAMILIES
from tools.reference_pages import DOCS, TABLES, with_tables

PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_tables_that_the_code_would_write(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert with_tables(text) == text, "run: python -m tools.reference_pages"


def test_every_table_is_on_a_page() -> None:
    on_pages = re.findall(r"<!-- table: ([a-z-]+) -->", "".join(page.read_text(encoding="utf-8") for page in PAGES))

    assert sorted(on_pages) == sorted(TABLES)


def test_every_setting_has_a_row_with_its_default() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")

    for name in [*NODE_SETTINGS, *TOPIC_SETTINGS]:
        assert f"| `{name}` |" in page
    assert "| `num.partitions` | `1` |" in page
    assert "| `auto.create.topics.enable` | `true` |" in page
    assert "| `advertised.listeners` | not set |" in page


def test_every_metric_has_a_row() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")

    for name in [*(family.name for family in FAMILIES), *(family.name for family in PARTITION_FAMILIES)]:
        assert f"| `{name}` |" in page


def test_a_table_that_is_out_of_date_is_noticed() -> None:
    page = "before\n<!-- table: aliases -->\n| `broker.id` | `something.else` |\n<!-- end -->\nafter\n"

    renewed = with_tables(page)

    assert "something.else" not in renewed
    assert "| `broker.id` | `node.id` |" in renewed
    assert renewed.startswith("before\n")
    assert renewed.endswith("<!-- end -->\nafter\n")
