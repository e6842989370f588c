"""`chronik serve` without typer: plain arguments into settings, and settings into a running node.

What this cannot read (help, mistakes) it leaves to `serve_command`, which says what is wrong. So it may be simple, and
it imports next to nothing: a node starts faster than typer is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chronik.client.errors import ChronikError
from chronik.wire.light import without_hypothesis

# Each option is a short name for a setting; `--set` reaches all of them. A test keeps this and serve_command together.
SETTING_OF_OPTION: Mapping[str, str] = {
    "--node-id": "node.id",
    "--listen": "listeners",
    "--advertise": "advertised.listeners",
    "--data-dir": "log.dirs",
    "--http": "http.address",
}


class ServeRequest(NamedTuple):
    values: dict[str, str]
    config_path: str | None
    add_user: Sequence[str] = ()
    add_scram: Sequence[str] = ()


def read_plainly(arguments: list[str]) -> ServeRequest | None:
    """The request in well-formed arguments, None when they are anything else."""
    set_values: dict[str, str] = {}
    option_values: dict[str, str] = {}
    users: dict[str, list[str]] = {"--add-user": [], "--add-scram": []}
    config_path = None
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if not equals:
            value = next(rest, "")
        if not value:
            return None
        if option == "--config":
            config_path = value
        elif option in users:
            users[option].append(value)
        elif option == "--set":
            key, equals, setting = value.partition("=")
            if not equals or not key.strip():
                return None
            set_values[key.strip()] = setting
        elif option in SETTING_OF_OPTION and not value.startswith("--"):
            option_values[SETTING_OF_OPTION[option]] = value
        else:
            return None
    return ServeRequest(
        set_values | option_values, config_path, tuple(users["--add-user"]), tuple(users["--add-scram"])
    )


def start(request: ServeRequest) -> int:
    """Runs the node until it is asked to stop; what kept it from starting comes out as `ChronikError`."""
    try:
        with without_hypothesis():
            from chronik.shell.errors import StartError
            from chronik.shell.main import run

        try:
            if not request.add_user and not request.add_scram:
                return run(request.values, request.config_path)
            from chronik.client.scram_users import first_users

            return run(request.values, request.config_path, first_users(request.add_user, request.add_scram))
        except StartError as error:
            hint = None if error.what_to_do in error.message else error.what_to_do
            raise ChronikError(error.message, hint) from None
    except KeyboardInterrupt:
        return 0  # Ctrl-C before the node could take it
