"""The short way of `chronik serve`: reads plain arguments, and leaves the rest to typer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command

from chronik.cli.app import app
from chronik.cli.serve.plain import SETTING_OF_OPTION, ServeRequest, read_plainly


def test_no_arguments_are_a_request_without_settings() -> None:
    assert read_plainly([]) == ServeRequest({}, None)


def test_options_become_settings_under_kafkas_names() -> None:
    arguments = ["--node-id", "3", "--listen=0.0.0.0:9092", "--data-dir", "d", "--config", "server.toml"]

    assert read_plainly(arguments) == ServeRequest(
        {"node.id": "3", "listeners": "0.0.0.0:9092", "log.dirs": "d"}, "server.toml"
    )


def test_set_takes_any_setting_and_its_value_may_hold_an_equals_sign() -> None:
    assert read_plainly(["--set", "num.partitions=3", "--set=broker.rack=a=b"]) == ServeRequest(
        {"num.partitions": "3", "broker.rack": "a=b"}, None
    )


def test_an_option_wins_over_set_in_whatever_order() -> None:
    for arguments in (["--node-id", "2", "--set", "node.id=5"], ["--set", "node.id=5", "--node-id", "2"]):
        assert read_plainly(arguments) == ServeRequest({"node.id": "2"}, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["extra"],
        ["--listen"],
        ["--listen", "--http"],
        ["--set", "novalue"],
        ["--set", "=x"],
        ["--no-such-option", "x"],
        ["--data-dir="],
    ],
)
def test_what_is_not_plain_is_left_to_typer(arguments: list[str]) -> None:
    assert read_plainly(arguments) is None


def test_both_ways_of_serve_know_the_same_options() -> None:
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    declared = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}

    assert declared - {"--help"} == {*SETTING_OF_OPTION, "--config", "--set", "--add-user", "--add-scram"}


def test_a_plain_serve_imports_neither_typer_nor_rich_nor_a_kafka_client() -> None:
    program = """
import sys
from chronik.cli import main
from chronik.cli.serve import plain
assert plain.read_plainly(["--listen", "127.0.0.1:0"])
import chronik.shell.main
print(sorted({"typer", "click", "rich", "confluent_kafka"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
