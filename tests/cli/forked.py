"""The command line in a process of its own that need not load Python's modules again.

Starting Python, typer, rich and a Kafka client costs a third of a second of CPU, and the tests run some 200 commands.
Here a server process loads them once and forks for each command: the same `main`, with files as its standard streams.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["chronik.cli.app", "confluent_kafka.admin", "rich.progress", "rich.table"])


def run_forked(
    arguments: Sequence[str], stdin: bytes, environment: Mapping[str, str], folder: Path, timeout_s: float
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `chronik` with these arguments."""
    streams = [folder / name for name in ("stdin", "stdout", "stderr")]
    streams[0].write_bytes(stdin)
    process = _FORKS.Process(
        target=_command, args=(list(arguments), [str(path) for path in streams], dict(environment))
    )
    process.start()
    process.join(timeout_s)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"chronik {' '.join(arguments)} did not end; it printed {streams[2].read_text()!r}")
    assert process.exitcode is not None  # it was joined
    return process.exitcode, streams[1].read_text(), streams[2].read_text()


def _command(arguments: list[str], streams: list[str], environment: dict[str, str]) -> None:
    os.dup2(os.open(streams[0], os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(os.open(streams[number], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["chronik", *arguments]
    from chronik.cli.main import main

    sys.exit(main())
