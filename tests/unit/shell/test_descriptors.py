"""How the descriptors of a process are shared out."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from chronik.shell.descriptors import LIMIT_MAX, raise_limit, shared_out
from chronik.shell.files import OPEN_FILES_MAX


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_to_the_hard_one(limits: tuple[int, int]) -> None:
    hard = limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

    limit = raise_limit()

    assert limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert limit == (LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX))


@pytest.mark.parametrize("limit", [64, 128, 256, 1024, 4096, 20_000, LIMIT_MAX])
def test_what_files_links_and_the_process_need_is_kept_from_connections(limit: int) -> None:
    shares = shared_out(limit)

    assert shares.connections + shares.files + shares.links + shares.own <= max(limit, 65)
    assert shares.connections >= 1
    assert 1 <= shares.files <= OPEN_FILES_MAX


def test_most_of_an_ordinary_limit_is_for_connections() -> None:
    assert shared_out(20_000).connections > 16_000


def test_it_is_said_in_one_line() -> None:
    assert str(shared_out(1024)) == (
        "1024 file descriptors: 256 for files, 128 for links to other nodes, 40 for the process, 600 for connections"
    )
