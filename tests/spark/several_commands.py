"""Several `chronik pipeline` commands in one process: `python several_commands.py FILE`, a JSON object of names to
arguments. Prints a JSON object of names to (exit code, standard output, standard error)."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from chronik.cli.main import main


def run(arguments: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["chronik", "pipeline", *arguments]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return code, out.getvalue(), err.getvalue()


def run_all(wish: Path) -> dict[str, tuple[int, str, str]]:
    done = {}
    for name, arguments in json.loads(wish.read_text()).items():
        done[name] = run(arguments)
        (wish.parent / f"{name}.out").write_text(done[name][1])
    return done


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_all(Path(sys.argv[1]))))
