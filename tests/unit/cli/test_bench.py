"""Where `chronik bench` finds the bench, and what it says where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronik
from chronik.cli.bench import source_tree
from chronik.client.errors import ChronikError


def test_the_bench_is_found_in_the_source_tree() -> None:
    assert (source_tree(Path(chronik.__file__)) / "tests" / "bench" / "runner.py").is_file()


def test_an_installed_package_says_that_it_has_no_bench(tmp_path: Path) -> None:
    with pytest.raises(ChronikError, match="clone of the repository"):
        source_tree(tmp_path / "site-packages" / "chronik" / "__init__.py")
