"""The house rules, run over every file of the repository. What each rule looks for is in checks.py."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest

from chronik.wire.versions import EVERY_API
from tests.tidy import checks
from tests.tidy.checks import Source

ROOT = Path(__file__).resolve().parents[2]
# Here real time passes: the things under test are other people's processes.
MAY_SLEEP = ("tests/clients/", "tests/cluster/", "tests/ecosystem/", "tests/bench/", "tests/mutants/")
MAY_PRINT = ("chronik/cli/", "tests/bench/", "tests/mutants/")
# The check for machine paths has samples of them.
MAY_NAME_PATHS = ("tests/tidy/",)


@cache
def repository_paths() -> tuple[str, ...]:
    """Every file that is tracked or would be: what git ignores is not ours."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(path for path in sorted(listed.stdout.splitlines()) if (ROOT / path).is_file())


@cache
def source(path: str) -> Source:
    return Source(path, (ROOT / path).read_text(encoding="utf-8", errors="replace"))


def python_under(*folders: str, but_not: tuple[str, ...] = ()) -> Iterator[Source]:
    for path in repository_paths():
        if path.endswith(".py") and path.startswith(folders) and not path.startswith(but_not):
            yield source(path)


def pages() -> Iterator[Source]:
    """What users and newcomers read. CHANGELOG says what was, in the words of its time."""
    for path in repository_paths():
        if path.endswith(".md") and path.startswith(("docs/", "README", "CONTRIBUTING")):
            yield source(path)


def assert_tidy(check: Callable[[Source], Iterable[str]], sources: Iterable[Source], advice: str) -> None:
    __tracebackhide__ = True
    looked_at = list(sources)
    findings = [finding for each in looked_at for finding in check(each)]
    assert looked_at, "the check looked at nothing: a folder has moved"
    if findings:
        pytest.fail(f"{len(findings)} untidy place(s). {advice}\n" + "\n".join(findings), pytrace=False)


OURS = ("chronik/", "tests/", "demo/", "tools/")


def test_no_file_is_longer_than_700_lines() -> None:
    assert_tidy(checks.long_file, python_under(*OURS), "Split the file: one noun a file.")


def test_programs_are_called_it_or_by_their_name() -> None:
    sources = [*python_under("chronik/"), *pages()]
    assert_tidy(checks.pronoun_for_a_program, sources, "Say which program, client or node it is.")


def test_prose_says_what_was_sent_answered_or_reported() -> None:
    sources = [*python_under("chronik/"), *pages()]
    assert_tidy(checks.told_in_prose, sources, "'Told' may mean any of them: use the word that is meant.")


def test_no_test_has_a_name_longer_than_80_characters() -> None:
    assert_tidy(checks.long_test_name, python_under("tests/"), "Say the rest in its docstring.")


def test_no_function_is_longer_than_60_lines() -> None:
    assert_tidy(checks.long_function, python_under(*OURS), "Give its steps names of their own.")


def test_every_module_says_what_it_is() -> None:
    assert_tidy(checks.missing_docstring, python_under(*OURS), "Open the file with a docstring.")


def test_no_name_would_fit_anything() -> None:
    assert_tidy(checks.empty_name, python_under(*OURS), "Name it for what it does (docs/GLOSSARY.md).")


def test_no_name_is_a_private_abbreviation() -> None:
    assert_tidy(checks.abbreviated_name, python_under("chronik/"), "Write high_watermark, end_offset, partition.")


def test_only_the_command_line_prints() -> None:
    sources = python_under("chronik/", "tests/", but_not=MAY_PRINT)
    assert_tidy(checks.print_call, sources, "Return it, trace it or log it.")


def test_no_error_is_swallowed() -> None:
    assert_tidy(checks.swallowed_error, python_under(*OURS), "Name the exception you expect, or let it through.")


def test_tests_do_not_sleep() -> None:
    sources = python_under("tests/", but_not=MAY_SLEEP)
    assert_tidy(checks.sleep_call, sources, "Wait for the event itself, or move a fake clock.")


def test_tests_do_not_patch() -> None:
    assert_tidy(checks.patching, python_under("tests/"), "Put a fake behind the door.")


def test_the_core_gives_the_same_answer_every_time() -> None:
    assert_tidy(checks.not_deterministic, python_under("chronik/core/"), "The core is given the time and its dice.")


def test_the_core_never_shows_the_order_of_a_set() -> None:
    assert_tidy(checks.iterated_set, python_under("chronik/core/"), "Strings hash differently in each process.")


def test_every_core_and_wire_module_has_its_test_file() -> None:
    check = partial(checks.untested_module, test_paths=frozenset(repository_paths()))
    assert_tidy(check, python_under("chronik/core/", "chronik/wire/"), "tests/unit mirrors chronik/.")


def test_every_request_handler_is_in_the_table() -> None:
    check = partial(checks.unlisted_handler, listed=frozenset(api.name for api in EVERY_API.values()))
    assert_tidy(check, python_under("chronik/api/"), "The table is the list of what the node speaks.")


def test_every_request_in_the_table_has_its_handler() -> None:
    missing = [api.name for api in EVERY_API.values() if f"chronik/api/{api.name}.py" not in repository_paths()]

    assert missing == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    sources = (source(path) for path in repository_paths() if not path.startswith(MAY_NAME_PATHS))
    assert_tidy(checks.machine_path, sources, "It must work on a machine that is not yours.")


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = {path: source(path) for path in repository_paths() if path.endswith(".md")}
    files = {path: pages[path].text if path in pages else "" for path in repository_paths()}
    assert_tidy(partial(checks.broken_link, files=files), pages.values(), "Mend the link.")


def test_every_mutant_is_of_a_failure_mode_that_the_docs_name() -> None:
    page = source("docs/failure-modes.md").text
    numbers = {Path(path).name[:3] for path in repository_paths() if path.startswith("tests/mutants/F")}
    named = re.findall(r"^\| F(\d+) \|.*\| (.*) \|$", page, re.MULTILINE)

    assert [int(number) for number, _ in named] == list(range(1, len(named) + 1))
    assert {f"F{int(number):02d}" for number, tests in named if tests != "—"} == numbers
    tests = {test for _, cell in named for test in re.findall(r"`([\w/]+\.py)`", cell)}
    assert [test for test in sorted(tests) if not (ROOT / "tests" / test).exists()] == []


def test_every_decision_is_in_the_index() -> None:
    index = source("docs/decisions/README.md").text
    records = [Path(path).name for path in repository_paths() if path.startswith("docs/decisions/0")]

    assert [name for name in records if f"({name})" not in index] == []
