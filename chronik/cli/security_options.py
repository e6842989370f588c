"""`--command-config` and `--kafka`, for every command that takes `--bootstrap`: added here, so that none is left out.

What they say becomes the `Security` of this process before the command begins.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from chronik.client import security
from chronik.client.security_settings import given_settings, security_of

CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        envvar="CHRONIK_COMMAND_CONFIG",
        metavar="FILE",
        help="Kafka's client properties: security.protocol, sasl.jaas.config, ssl.truststore.location and others.",
    ),
]
KafkaPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka", metavar="KEY=VALUE", help="One of those settings; over the file and CHRONIK_KAFKA_KEY. Repeatable."
    ),
]
_ADDED = {"command_config": CommandConfig, "kafka": KafkaPairs}


def add_security_options(app: typer.Typer) -> None:
    """To each command of it that reaches a cluster."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_options(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_security_options(group.typer_instance)
    if app.registered_callback is not None and app.registered_callback.callback is not None:
        app.registered_callback.callback = _with_options(app.registered_callback.callback)


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(command)
    if "bootstrap" not in signature.parameters or hasattr(command, "__wrapped__"):
        return command
    own = set(signature.parameters)

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        settings = given_settings(named.get("command_config"), named.get("kafka") or ())
        security.use(security_of(settings))
        return command(*arguments, **{name: value for name, value in named.items() if name in own})

    hints = get_type_hints(command, include_extras=True)
    added = {name: kind for name, kind in _ADDED.items() if name not in own}
    parameters = [
        each.replace(annotation=hints.get(name, each.annotation)) for name, each in signature.parameters.items()
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in added.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, **added}
    return run
