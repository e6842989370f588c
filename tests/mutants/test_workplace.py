"""The machinery itself: a fault that no test notices, and a patch that does not fit, are told and not passed over."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.mutant import ROOT, BadMutant, Mutant, read_mutant
from tests.mutants.workplace import Workplace

CHANGED = "chronik/core/log/epochs.py"
NAMED = "tests/unit/core/log/test_epochs.py::test_negative_numbers_are_a_bug"


def mutant_of(tmp_path: Path, before: str, after: str) -> Mutant:
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    diff = "".join(difflib.unified_diff(*lines, f"a/{CHANGED}", f"b/{CHANGED}", n=2))
    file = tmp_path / "F01_some_words.patch"
    file.write_text(f"# F1: a fault\n# caught by: {NAMED}\ndiff --git a/{CHANGED} b/{CHANGED}\n{diff}")
    return read_mutant(file)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    made = Workplace(tmp_path_factory.mktemp("mutants") / "tree")
    yield made
    made.close()


def test_a_fault_is_caught_and_gone_afterwards_and_one_that_no_test_notices_is_told(
    workplace: Workplace, tmp_path: Path
) -> None:
    text = (workplace.directory / CHANGED).read_text()
    assert "raise ValueError(" in text

    caught = workplace.try_mutant(mutant_of(tmp_path, text, text.replace("raise ValueError(", "print(", 1)))
    harmless = workplace.try_mutant(mutant_of(tmp_path, text, text.replace('"""', '"""Indeed: ', 1)))

    assert (caught.caught_by, caught.problem) == ([NAMED], None)
    assert (harmless.caught_by, harmless.problem) == ([], f"survived {NAMED}")
    assert (workplace.directory / CHANGED).read_text() == text


def test_a_patch_that_does_not_fit_is_told(workplace: Workplace, tmp_path: Path) -> None:
    outcome = workplace.try_mutant(mutant_of(tmp_path, "no such line\n", "another\n"))

    assert outcome.problem is not None
    assert outcome.problem.startswith("does not apply")


def test_a_fault_that_keeps_the_tests_from_running_is_not_caught_by_them(workplace: Workplace, tmp_path: Path) -> None:
    text = (workplace.directory / CHANGED).read_text()

    outcome = workplace.try_mutant(mutant_of(tmp_path, text, text + "\nno python at all\n"))

    assert outcome.problem is not None
    assert "did not run" in outcome.problem


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("F01_words.patch", ""),
        ("F01_words.patch", "# F2: another number\n# caught by: tests/a.py::test_b\n+++ b/c.py\n"),
        ("words.patch", "# F1: no number in its name\n# caught by: tests/a.py::test_b\n+++ b/c.py\n"),
        ("F01_words.patch", "# F1: caught by nobody\n+++ b/c.py\n"),
        ("F01_words.patch", "# F1: changes nothing\n# caught by: tests/a.py::test_b\n"),
    ],
)
def test_a_patch_without_its_words_is_refused(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)

    with pytest.raises(BadMutant):
        read_mutant(file)


def test_mutants_are_called_by_number_or_by_how_their_name_begins(tmp_path: Path) -> None:
    text = (ROOT / CHANGED).read_text()
    mutant = mutant_of(tmp_path, text, text + "\n")

    assert all(mutant.is_called([name]) for name in ("F1", "f01", "F01_some", "F01_some_words"))
    assert not any(mutant.is_called([name]) for name in ("F", "F10", "F01_words", ""))
