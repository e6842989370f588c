"""A mutant: a known fault as a patch, with the words for it and the tests that must notice.

The file is a unified diff that `git apply` takes, under a few lines of its own:

    # F8: the next offset is shown as the watermark
    # caught by: tests/unit/http/test_views.py::test_a_sentence
    # caught by: tests/unit/api/test_fetch.py::test_another
    diff --git a/... b/...
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

_NAME = re.compile(r"F(\d\d)_[a-z0-9_]+")
_FAULT = re.compile(r"# F(\d+): (.+)")
_CAUGHT_BY = re.compile(r"# caught by: (\S+\.py::\w+)")
_TOUCHED = re.compile(r"\+\+\+ b/(.+)")


class BadMutant(Exception):
    """A patch file that is not written as the others are."""


@dataclass(frozen=True)
class Mutant:
    """One patch file."""

    path: Path
    number: int  # as in failure-modes.md
    fault: str
    caught_by: tuple[str, ...]  # each of these tests fails when the fault is in
    touched: tuple[str, ...]  # the files it changes

    @property
    def name(self) -> str:
        return self.path.stem

    def is_called(self, names: Iterable[str]) -> bool:
        """Whether one of these is its number (F8), or how its name begins (F08_metrics)."""
        numbers = (f"F{self.number}", f"F{self.number:02}")
        return any(name.upper() in numbers or ("_" in name and self.name.startswith(name)) for name in names)


def read_mutant(path: Path) -> Mutant:
    """Raises BadMutant."""
    lines = path.read_text(encoding="utf-8").splitlines()
    named, fault = _NAME.fullmatch(path.stem), _FAULT.fullmatch(lines[0] if lines else "")
    if named is None or fault is None or int(named[1]) != int(fault[1]):
        raise BadMutant(f"{path.name}: named F08_some_words.patch, it begins with the line '# F8: the fault in words'")
    caught_by = tuple(match[1] for line in lines if (match := _CAUGHT_BY.fullmatch(line)))
    touched = tuple(match[1] for line in lines if (match := _TOUCHED.fullmatch(line)))
    if not caught_by or not touched:
        raise BadMutant(f"{path.name}: it needs a line '# caught by: tests/...py::test_name' and a diff")
    return Mutant(path, int(fault[1]), fault[2], caught_by, touched)


def all_mutants(folder: Path = FOLDER) -> list[Mutant]:
    return [read_mutant(path) for path in sorted(folder.glob("*.patch"))]


def apply(mutant: Mutant, tree: Path, *, only_check: bool = False) -> str | None:
    """Put the fault into a tree (or see whether it could be). None when it fits, else what git says."""
    # One line that fits on either side is enough: a change nearby is no reason to write the patch anew.
    command = ["git", "apply", "-C1", *(["--check"] if only_check else []), str(mutant.path)]
    # A copy of the tree may lie within some other repository, whose paths are not meant.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def files_of(root: Path = ROOT) -> list[str]:
    """Every file of the working tree that git knows or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [path for path in sorted(listed.stdout.splitlines()) if (root / path).is_file()]
