"""The mutants do not rot: each still fits the tree, and names tests that are there. `make mutants` runs them."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.mutants.mutant import ROOT, Mutant, all_mutants, apply

# All of failure-modes.md but F37, which needs transactions; and F43, what members of a group may rely on.
FAULTS = {*range(1, 37), *range(38, 44)}


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_the_patch_still_applies(mutant: Mutant) -> None:
    problem = apply(mutant, ROOT, only_check=True)

    assert problem is None, f"{mutant.path.name} no longer fits the code. Put the same fault into it as it is now."


def test_every_test_a_mutant_names_is_there() -> None:
    named = {test for mutant in all_mutants() for test in mutant.caught_by}

    assert sorted(test for test in named if test.partition("::")[2] not in functions_of(test.partition("::")[0])) == []


def test_every_fault_has_its_mutants() -> None:
    assert FAULTS - {mutant.number for mutant in all_mutants()} == set()


@cache
def functions_of(path: str) -> frozenset[str]:
    """Functions, and what Hypothesis makes of a state machine: `TestStorm = Storm.TestCase`."""
    if not (ROOT / path).is_file():
        return frozenset()
    names: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)
