"""What a container may use counts, not what the machine has."""

from __future__ import annotations

from pathlib import Path

from chronik.shell.memory import REQUEST_BYTES_MAX, memory_bytes, request_bytes_max

GIGABYTE = 1024**3


def test_a_containers_limit_counts_before_the_machines(tmp_path: Path) -> None:
    limit, none = tmp_path / "memory.max", tmp_path / "none"
    limit.write_text("1048576\n")

    assert memory_bytes((str(none), str(limit))) == 1_048_576


def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")

    assert memory_bytes((str(limit),)) == memory_bytes(()) > 64 * 1024**2


def test_requests_get_a_part_of_it_and_no_more_than_so_much() -> None:
    assert request_bytes_max(GIGABYTE) == GIGABYTE // 8
    assert request_bytes_max(1024 * GIGABYTE) == REQUEST_BYTES_MAX
