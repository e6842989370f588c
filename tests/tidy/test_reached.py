"""Every test is run by `make test`, or by a target for what takes minutes: one that is never run is worse than none."""

from __future__ import annotations

import ast
import shlex
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {"node_modules", "__pycache__", "target"}
TEST_FILES = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests").rglob("*.py"))
    if not NOT_OURS & set(path.relative_to(ROOT).parts)
]


# What `make test` leaves to be run on demand, and by which target.
ON_DEMAND = {
    "tests/ecosystem/test_connect.py": "test-ecosystem",
    "tests/ecosystem/test_karapace.py": "test-ecosystem",
    "tests/ecosystem/test_mirror_maker.py": "test-ecosystem",
}


def pytest_runs(target: str) -> list[tuple[list[str], list[str]]]:
    """What `make TARGET` would hand to pytest: for each call the paths to look in, and those to leave out."""
    dry = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target, "ARGS="],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    calls = [shlex.split(line) for line in dry.stdout.splitlines() if " -m pytest " in line]
    words = [call[call.index("pytest") + 1 :] for call in calls]
    return [
        (
            [word for word in call if word.startswith("tests")],
            [word.partition("=")[2] for word in call if word.startswith("--ignore=")],
        )
        for call in words
    ]


def is_within(path: str, folders: list[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)


def missed_by(target: str, tests: list[str]) -> list[str]:
    runs = pytest_runs(target)
    return [path for path in tests if not any(is_within(path, into) and not is_within(path, out) for into, out in runs)]


def test_every_test_file_is_run_by_make_test() -> None:
    tests = [path for path in TEST_FILES if Path(path).name.startswith("test_")]

    assert tests
    assert missed_by("test", tests) == list(ON_DEMAND)
    for path, target in ON_DEMAND.items():
        assert missed_by(target, [path]) == []


def test_every_file_with_tests_has_a_name_that_pytest_looks_for() -> None:
    """`test_<something>.py`; in any other file a test is never found."""
    others = [path for path in TEST_FILES if not Path(path).name.startswith("test_")]

    assert [path for path in others if has_tests(ROOT / path)] == []


def has_tests(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_") for node in tree.body
    )


def test_the_check_script_runs_make_test() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")
