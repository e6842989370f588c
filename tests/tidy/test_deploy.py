"""The examples in deploy/ and on the page about running a cluster are understood by the program they are for."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from chronik.cli.main import EXIT_BAD_INPUT
from chronik.cli.serve.plain import read_plainly
from chronik.core.config.node import NodeConfig
from chronik.core.config.parse import parse_toml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "running-a-cluster.md"
TOML_ON_THE_PAGE = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def read(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def service_settings() -> dict[str, str]:
    return dict(line.split("=", 1) for line in read("chronik.service").splitlines() if re.match(r"[A-Z]\w+=", line))


def test_the_example_of_a_config_file_makes_a_node_of_a_cluster() -> None:
    config = NodeConfig.from_settings(parse_toml(read("chronik.toml")))

    assert not config.is_alone
    assert sorted(config.voters) == [1, 2, 3]
    assert config.voters[config.node_id] == config.advertised_address
    assert (config.topics.default_replication_factor, config.log.min_insync_replicas) == (3, 2)


@pytest.mark.parametrize("text", TOML_ON_THE_PAGE, ids=range(len(TOML_ON_THE_PAGE)))
def test_config_files_on_the_page_are_understood(text: str) -> None:
    NodeConfig.from_settings(parse_toml(text))


def test_the_page_has_examples_of_config_files() -> None:
    assert len(TOML_ON_THE_PAGE) >= 2


def test_the_service_starts_a_node_that_is_not_started_again() -> None:
    """The service starts a node that is not started again when its settings are wrong."""
    service = service_settings()

    command = shlex.split(service["ExecStart"])
    assert command[0].endswith("/chronik")
    assert command[1] == "serve"
    assert read_plainly(command[2:]) is not None
    assert service["RestartPreventExitStatus"] == str(EXIT_BAD_INPUT)


def test_the_service_is_started_when_its_user_its_program_and_its_settings_are_there() -> None:
    service = service_settings()
    program, *arguments = shlex.split(service["ExecStart"])
    request = read_plainly(arguments[1:])
    assert request is not None
    instructions = re.findall(r"^#   (.*)$", read("chronik.service"), re.MULTILINE)
    steps = [shlex.split(step) for line in instructions for step in line.split("&&")]
    created = [step[-1] for step in steps if step[0] == "useradd"]
    installed = {step[-1]: step[-2] for step in steps if step[0] == "install"}

    assert created == [service["User"]] == [service["Group"]]
    assert ["python3", "-m", "venv", str(Path(program).parents[1])] in steps
    assert request.config_path in installed
    assert [name for name in installed.values() if not (ROOT / name).is_file()] == []
    assert steps[-1] == ["systemctl", "enable", "--now", "chronik"]
    assert (
        NodeConfig.from_settings(parse_toml(read("chronik.toml"))).server.log_dirs
        == f"/var/lib/{service['StateDirectory']}"
    )


def test_the_container_starts_a_node_that_can_be_reached_from_outside() -> None:
    text = read("Containerfile")
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    words = json.loads(command)
    request = read_plainly(words[1:])

    assert words[0] == "serve"
    assert request is not None
    config = NodeConfig.from_settings(request.values)
    assert config.address == ("0.0.0.0", 9092)
    assert config.advertised_address == ("localhost", 9092)
    assert f"VOLUME {config.server.log_dirs}" in text


def test_the_container_copies_only_what_there_is() -> None:
    copied = [words.split()[1:-1] for words in re.findall(r"^COPY .*$", read("Containerfile"), re.MULTILINE)]

    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
