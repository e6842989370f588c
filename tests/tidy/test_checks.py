"""A check that cannot fail is no check: each one finds its bad samples and passes its good ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from tests.tidy import checks
from tests.tidy.checks import Source

Check = Callable[[Source], Iterable[str]]


def long_body(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


BAD: list[tuple[Check, str]] = [
    (checks.long_file, "x = 1\n" * 701),
    (checks.pronoun_for_a_program, "# Whoever waits is told"),
    (checks.pronoun_for_a_program, "# the client and his batch"),
    (checks.pronoun_for_a_program, "# those who wait for a sync"),
    (checks.pronoun_for_a_program, "# no node leads, or nobody answers"),
    (checks.pronoun_for_a_program, "# read by anybody"),
    (checks.told_in_prose, "x = 1  # what the client was told"),
    (checks.told_in_prose, 'raise Refused(code, f"node {node} told it")'),
    (checks.long_test_name, f"def test_{'a' * 76}(): ..."),
    (checks.long_function, long_body(61)),
    (checks.long_function, "class A:\n" + "\n".join("    " + line for line in long_body(61).splitlines())),
    (checks.missing_docstring, "x = 1\n"),
    (checks.empty_name, "class TopicManager: ..."),
    (checks.empty_name, "def fetch_helper(): ..."),
    (checks.empty_name, "def process(): ..."),
    (checks.empty_name, "class Info: ..."),
    (checks.abbreviated_name, "hw = 1"),
    (checks.abbreviated_name, "def f(tp): ..."),
    (checks.abbreviated_name, "self.old_leo = 1"),
    (checks.print_call, "print('x')"),
    (checks.swallowed_error, "try:\n    f()\nexcept Exception:\n    pass"),
    (checks.swallowed_error, "try:\n    f()\nexcept:\n    ..."),
    (
        checks.swallowed_error,
        "for x in y:\n    try:\n        f()\n    except (OSError, BaseException):\n        continue",
    ),
    (checks.sleep_call, "time.sleep(1)"),
    (checks.sleep_call, "await asyncio.sleep(0.1)"),
    (checks.sleep_call, "from time import sleep\nsleep(pause)"),
    (checks.patching, "from unittest.mock import Mock"),
    (checks.patching, "from unittest import mock"),
    (checks.patching, "import unittest.mock"),
    (checks.patching, "monkeypatch.setattr(a, 'b', c)"),
    (checks.not_deterministic, "async def f():\n    x = 1"),
    (checks.not_deterministic, "async def f():\n    await g()"),
    (checks.not_deterministic, "hash(name) % partitions"),
    (checks.not_deterministic, "open('x')"),
    (checks.not_deterministic, "uuid.uuid4()"),
    (checks.iterated_set, "for x in {1, 2}: f(x)"),
    (checks.iterated_set, "for x in set(y): f(x)"),
    (checks.iterated_set, "[x for x in {y for y in z}]"),
    (checks.iterated_set, "def f(members: set[str]):\n    for m in members: g(m)"),
    (checks.iterated_set, "def f(members: frozenset[str] | None):\n    return list(members)"),
    (checks.iterated_set, "def f():\n    seen = set()\n    return tuple(seen)"),
    (checks.iterated_set, "class A:\n    ids: set[int]\n    def f(self):\n        return {i: 0 for i in self.ids}"),
    (checks.iterated_set, "class A:\n    def f(self):\n        self.ids = set()\n        return [*self.ids]"),
    (
        checks.iterated_set,
        "class A:\n    def f(self):\n        self.ids: set[int] = g()\n        return self.ids.pop()",
    ),
    (checks.iterated_set, "def f(a: set[str], b: list[str]):\n    return ','.join(a - set(b))"),
    (checks.iterated_set, "def f(a: set[str]):\n    return next(iter(a))"),
    (checks.machine_path, "cd /work/main"),
    (checks.machine_path, 'x = "/root/.cache"'),
    (checks.machine_path, '"resolved": "https://example.org/a.tgz"'),
    (checks.machine_path, "pip install --index-url http://example.org x"),
    (checks.machine_path, "https://registry.npmjs.org/kafkajs"),
]

GOOD: list[tuple[Check, str]] = [
    (checks.long_file, "x = 1\n" * 700),
    (checks.pronoun_for_a_program, "# a client and its batch; the operator who starts it"),
    (checks.told_in_prose, "told = answer['told']  # the field `told` of the report"),
    (checks.long_test_name, f"def test_{'a' * 75}(): ..."),
    (checks.long_function, long_body(60)),
    (checks.missing_docstring, '"""What it is."""\n'),
    (checks.missing_docstring, ""),
    (checks.empty_name, "def data_received(): ...\nclass ProcessId: ...\ndef utility(): ..."),
    (checks.abbreviated_name, "http = 1\nleonard = 2\nself.high_watermark = hw"),
    (checks.print_call, "console.print('x')"),
    (checks.swallowed_error, "try:\n    f()\nexcept FileNotFoundError:\n    pass"),
    (checks.swallowed_error, "try:\n    f()\nexcept Exception:\n    log()\n    raise"),
    (checks.sleep_call, "await asyncio.sleep(0)"),
    (checks.patching, "monkeypatch.setenv('A', 'b')\nimport unittest"),
    (checks.not_deterministic, "class Door(Protocol):\n    async def wait(self):\n        '''Waits.'''"),
    (checks.not_deterministic, "class A:\n    def __hash__(self):\n        return hash(self.x)"),
    (checks.iterated_set, "def f(a: set[str]):\n    for x in sorted(a): g(x)"),
    (checks.iterated_set, "def f(a: set[str]):\n    return all(x for x in a), len(a), {x for x in a}, max(a)"),
    (checks.iterated_set, "def f(a: dict[str, int]):\n    for x in a: g(x)"),
    (checks.iterated_set, "def f(a: set[str]):\n    a.add(1)\n\ndef g(a: list[str]):\n    return list(a)"),
    (checks.machine_path, "https://kafka.apache.org/work/\n./work/x\nhomework/root/x"),
]


@pytest.mark.parametrize(("check", "text"), BAD)
def test_a_check_finds_its_bad_sample(check: Check, text: str) -> None:
    found = list(check(Source("chronik/core/sample.py", text)))

    assert found
    assert all(line.startswith("chronik/core/sample.py:") for line in found)


@pytest.mark.parametrize(("check", "text"), GOOD)
def test_a_check_passes_its_good_sample(check: Check, text: str) -> None:
    assert list(check(Source("chronik/core/sample.py", text))) == []


def test_a_module_name_that_would_fit_anything_is_found() -> None:
    assert list(checks.empty_name(Source("chronik/node/helpers.py", "")))
    assert list(checks.empty_name(Source("chronik/utils/fetch.py", "")))


def test_a_module_without_its_test_file_is_found() -> None:
    module = Source("chronik/core/log/index.py", "def f():\n    return 1")
    check = partial(checks.untested_module, source=module)

    assert list(check(test_paths=frozenset({"tests/unit/core/test_index.py"})))
    assert not list(check(test_paths=frozenset({"tests/unit/core/log/test_index.py"})))


def test_a_module_of_declarations_needs_no_test_file() -> None:
    module = Source("chronik/core/ports.py", "class Clock(Protocol):\n    def now_ms(self) -> int:\n        '''Now.'''")

    assert not list(checks.untested_module(module, test_paths=frozenset()))


def test_a_request_handler_that_is_not_in_the_table_is_found() -> None:
    handler = Source("chronik/api/fetch.py", "async def handle(request, caller, desk): ...")
    direct = Source("chronik/api/fetch.py", "def start(frame): ...")
    other = Source("chronik/api/context.py", "class Desk: ...")

    assert list(checks.unlisted_handler(handler, frozenset({"produce"})))
    assert list(checks.unlisted_handler(direct, frozenset({"produce"})))
    assert not list(checks.unlisted_handler(handler, frozenset({"fetch"})))
    assert not list(checks.unlisted_handler(other, frozenset()))


def test_a_link_to_a_missing_page_is_found() -> None:
    page = Source("docs/a.md", "[one](b.md) [two](../README.md#top) [three](https://example.org/x) [four](decisions/)")

    found = {"docs/a.md": "", "docs/b.md": "", "README.md": "# Top", "docs/decisions/1.md": ""}
    assert not list(checks.broken_link(page, found))
    assert len(list(checks.broken_link(page, {"docs/c.md": ""}))) == 3


def test_a_link_to_a_missing_heading_is_found() -> None:
    page = Source("docs/a.md", "## Here\n[one](b.md#of-a-node) [two](b.md#its-end-1) [three](#here)")

    assert not list(
        checks.broken_link(page, {"docs/a.md": page.text, "docs/b.md": "# `of` a node\n# its end\n# Its end"})
    )
    assert len(list(checks.broken_link(page, {"docs/a.md": "", "docs/b.md": "```\n# of a node\n```\n# its end"}))) == 3


def test_every_check_has_a_bad_sample_and_a_good_one() -> None:
    every = {
        value
        for name, value in vars(checks).items()
        if callable(value) and getattr(value, "__annotations__", {}).get("return") == "Iterator[str]" and name[0] != "_"
    } - {checks.untested_module, checks.unlisted_handler, checks.broken_link}

    assert every == {check for check, _ in BAD} == {check for check, _ in GOOD}
