"""Every command that reaches a cluster takes `--command-config` and `--kafka`, and goes by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from chronik.cli.app import app
from chronik.cli.options import Bootstrap
from chronik.cli.security_options import add_security_options
from chronik.client import security


@pytest.fixture(autouse=True)
def afterwards_plain() -> Iterator[None]:
    yield
    security.use(security.PLAIN_CONNECTION)


def callbacks(group: typer.Typer) -> Iterator[Callable[..., Any]]:
    for command in group.registered_commands:
        if command.callback is not None:
            yield command.callback
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            yield from callbacks(inner.typer_instance)


def test_all_that_take_an_address_take_them() -> None:
    from inspect import signature

    reaching = [each for each in callbacks(app) if "bootstrap" in signature(each).parameters]
    assert len(reaching) > 20
    for each in reaching:
        assert {"command_config", "kafka"} <= set(signature(each).parameters), each


def test_what_they_say_is_in_force_when_the_command_begins() -> None:
    seen: list[security.Security] = []
    own = typer.Typer()

    @own.command()
    def look(bootstrap: Bootstrap = "h:1") -> None:
        seen.append(security.in_force())

    add_security_options(own)
    pairs = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=ann", "sasl.password=s3cret"]
    result = CliRunner().invoke(own, [word for pair in pairs for word in ("--kafka", pair)])
    assert (result.exit_code, result.output) == (0, "")
    CliRunner().invoke(own, [])

    assert [each.protocol for each in seen] == ["SASL_PLAINTEXT", "PLAINTEXT"]
    assert seen[0].username == "ann"
