"""`chronik bench`: Chronik measured against Apache Kafka, from the source tree: the bench is no part of the package.

The bench has a command line of its own (tests/bench); what follows `bench` is handed to it as it is.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import typer

import chronik
from chronik.cli.options import example
from chronik.client.errors import ChronikError

EXAMPLE = example("chronik bench run B3 --rounds 5", "chronik bench compare before.json after.json")
# From the first word on all is the bench's: `chronik bench run --help` is answered there.
CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
PACKAGES = ("psutil",)


def bench(context: typer.Context) -> None:
    """Measure Chronik against Apache Kafka, side by side on this machine. Needs the source tree.

    run [ROW ...]: measure, print, keep; rows: what there is to measure; show, report, publish, compare: look at
    results; kafka: run an Apache Kafka until Ctrl-C. Each has a --help of its own.
    """
    root = source_tree(Path(chronik.__file__))
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ChronikError(f"the bench needs {', '.join(missing)}", "in the source tree, run `make setup`")
    arguments = context.args or ["--help"]
    sys.stdout.flush()
    # In its place: Ctrl-C and the exit code are the bench's own.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    os.execv(sys.executable, [sys.executable, "-m", "tests.bench", *arguments])


def source_tree(module: Path) -> Path:
    """The source tree that this package is run from. Raises ChronikError when it was installed from a wheel."""
    root = module.resolve().parents[1]
    if not (root / "tests" / "bench" / "__main__.py").is_file():
        raise ChronikError(
            "the bench is not part of the installed package",
            "run `chronik bench` (or `make bench`) in a clone of the repository",
        )
    return root
