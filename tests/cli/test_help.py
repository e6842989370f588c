"""What the command line says about itself, and what it says when there is no node."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from typer.main import get_command

from chronik import __version__
from chronik.cli.app import app
from tests.cli.conftest import COMMAND, Chronik


def _commands() -> Iterator[list[str]]:
    """Every command there is, as words to type."""
    root = get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from ([name, inner] for inner in command.commands)
        else:
            yield [name]


COMMANDS = list(_commands())


@pytest.fixture
def no_node() -> Chronik:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Chronik(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example_and_fits_a_terminal(no_node: Chronik, command: list[str]) -> None:
    help_text = no_node.ok(*command, "--help").out

    assert f"Usage: chronik {' '.join(command)}" in help_text
    examples = help_text[help_text.index("Example") :]
    assert f"chronik {' '.join(command)}" in examples
    assert max(len(line) for line in help_text.splitlines()) <= 100


ABOUT_A_CLUSTER = [
    each
    for each in COMMANDS
    if each[0] not in ("serve", "simulate", "cluster", "bench", "lab")
    and each not in (["verify", "history"], ["pipeline", "compare"])
]


@pytest.mark.parametrize("command", ABOUT_A_CLUSTER, ids=" ".join)
def test_every_command_takes_an_address_and_prints_json(no_node: Chronik, command: list[str]) -> None:
    help_text = no_node.ok(*command, "--help").out

    assert "--bootstrap" in help_text
    assert "CHRONIK_BOOTSTRAP" in help_text
    assert "--json" in help_text


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[0] == "cluster"], ids=" ".join)
def test_every_command_of_a_local_cluster_takes_its_directory_and_prints_json(
    no_node: Chronik, command: list[str]
) -> None:
    help_text = no_node.ok(*command, "--help").out

    assert "--data-dir" in help_text
    assert "--json" in help_text


def test_the_help_of_serve_says_what_holds_without_arguments(no_node: Chronik) -> None:
    help_text = no_node.ok("serve", "--help").out

    for default in ("127.0.0.1:9092", "127.0.0.1:9644", "./chronik-data"):
        assert default in help_text


def test_no_arguments_show_the_commands(no_node: Chronik) -> None:
    shown = no_node.run()

    for name in ("serve", "cluster", "topic", "group", "produce", "consume"):
        assert name in shown.out
    assert "Traceback" not in shown.err


def test_the_version_is_printed(no_node: Chronik) -> None:
    assert no_node.run_process("--version").out == f"chronik {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["topic", "list", "--json"],
        ["topic", "create", "t"],
        ["topic", "describe", "t"],
        ["topic", "alter", "t", "--partitions", "2"],
        ["topic", "delete", "t", "--yes"],
        ["group", "list"],
        ["group", "describe", "g"],
        ["group", "reset", "g", "--to-latest"],
        ["group", "delete", "g", "--yes"],
        ["produce", "t", "--count", "1"],
        ["consume", "t"],
        ["watch", "--once"],
    ],
    ids=" ".join,
)
def test_without_a_node_every_command_says_how_to_start_one(no_node: Chronik, arguments: list[str]) -> None:
    begin = time.monotonic()

    assert no_node.refused(*arguments) == (
        f"no Kafka node answers at {no_node.bootstrap}; start one with `chronik serve`"
    )
    assert time.monotonic() - begin < 5


def test_the_error_of_a_process_started_from_nothing_is_as_clear(no_node: Chronik) -> None:
    result = no_node.run_process("topic", "list")

    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: no Kafka node answers at {no_node.bootstrap}; start one with `chronik serve`\n"


def test_something_that_listens_and_never_answers_is_no_kafka_node() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        error = Chronik(address).refused("topic", "list")

    assert error == f"no Kafka node answers at {address}; start one with `chronik serve`"


def test_a_bad_address_is_refused(no_node: Chronik) -> None:
    assert no_node.refused("topic", "list", "--bootstrap", "localhost:http").startswith(
        "localhost:http is not an address"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["topics"], "no such command 'topics'. Did you mean 'topic'? See `chronik --help`"),
        (["topic", "lst"], "no such command 'lst'. Did you mean 'list'? See `chronik topic --help`"),
        (["produce"], "missing argument 'TOPIC'; see `chronik produce --help`"),
        (["--nope"], "no such option: --nope; see `chronik --help`"),
        (["serve", "extra"], "got unexpected extra argument(s) (extra); see `chronik serve --help`"),
    ],
)
def test_a_wrong_command_line_is_refused_with_how_to_get_help(
    no_node: Chronik, arguments: list[str], expected: str
) -> None:
    assert no_node.refused(*arguments) == expected


def test_a_wrong_value_is_refused_with_its_option_and_how_to_get_help(no_node: Chronik) -> None:
    refused = no_node.refused("consume", "t", "--max-messages", "many")

    assert "--max-messages" in refused
    assert refused.endswith("; see `chronik consume --help`")


def test_the_shell_completes_commands_and_options(no_node: Chronik) -> None:
    def completed(words: str) -> str:
        environment = os.environ | {
            "_CHRONIK_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        program = "import sys; sys.argv = ['chronik']; from chronik.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout

    assert completed("chronik to").split() == ["topic"]
    assert "describe" in completed("chronik topic ").split()
    assert "--listen" in completed("chronik serve --li").split()


def test_the_shell_completes_the_names_of_topics(chronik: Chronik, name: str) -> None:
    chronik.ok("topic", "create", name)
    environment = chronik.environment | {
        "_CHRONIK_COMPLETE": "complete_bash",
        "COMP_WORDS": f"chronik topic describe {name[:8]}",
        "COMP_CWORD": "3",
    }

    done = subprocess.run([*COMMAND], capture_output=True, text=True, env=environment, check=True)

    assert name in done.stdout.split()
