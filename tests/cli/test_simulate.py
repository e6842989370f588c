"""What `chronik simulate` says and how it ends."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from chronik.cli.app import app


def test_a_few_worlds_are_summed_up() -> None:
    done = CliRunner().invoke(app, ["simulate", "--seeds", "2", "--seconds", "1", "--jobs", "1"])

    assert done.exit_code == 0
    assert "2 worlds" in done.stdout
    assert "no promise broken" in done.stdout


def test_one_world_is_told_with_its_trace() -> None:
    done = CliRunner().invoke(app, ["simulate", "--seed", "5", "--seconds", "1"])

    assert done.exit_code == 0
    assert "node1      is ready" in done.stdout
    assert "trace " in done.stdout


def test_worlds_may_begin_at_another_seed() -> None:
    done = CliRunner().invoke(
        app, ["simulate", "--seeds", "2", "--from", "5", "--seconds", "1", "--jobs", "1", "--json"]
    )

    told = json.loads(done.stdout)
    assert (told["worlds"], told["last"]["seed"]) == (2, 6)


def test_json_is_all_there_is_on_standard_output() -> None:
    done = CliRunner().invoke(app, ["simulate", "--seed", "5", "--seconds", "1", "--json"])

    told = json.loads(done.stdout)
    assert told["worlds"] == 1
    assert told["broken"] is False
    assert told["last"]["seed"] == 5


def test_worlds_on_several_processes_are_summed_up_alike() -> None:
    done = CliRunner().invoke(app, ["simulate", "--seeds", "3", "--seconds", "1", "--jobs", "2"])

    assert done.exit_code == 0
    assert "3 worlds" in done.stdout


def test_the_coverage_names_what_no_fault_met() -> None:
    done = CliRunner().invoke(app, ["simulate", "--seeds", "1", "--seconds", "1", "--jobs", "1", "--coverage"])

    assert done.exit_code == 0
    assert "wipe never happened" in done.stdout
    assert "states that no fault met: " in done.stdout


def test_the_coverage_is_told_as_json_too() -> None:
    done = CliRunner().invoke(
        app, ["simulate", "--seeds", "1", "--seconds", "1", "--jobs", "1", "--coverage", "--json"]
    )

    told = json.loads(done.stdout)
    assert told["coverage"]["wipe"]["at all"] == 0
    assert ["wipe", "at all"] in told["never_met"]
    assert "unclean" in told["unreached"]
