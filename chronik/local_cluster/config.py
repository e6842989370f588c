"""The config files of a local cluster's nodes: chronik makes them, users change them, and so does chronik."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from chronik.client.errors import ChronikError
from chronik.core.config.definitions import BadConfig
from chronik.core.config.parse import parse_toml

if TYPE_CHECKING:
    from chronik.core.config.node import NodeConfig

VOTERS = "controller.quorum.voters"


def checked(settings: Mapping[str, str]) -> NodeConfig:
    """The config these settings make. Raises ChronikError."""
    from chronik.core.config.node import NodeConfig  # 30 ms that the other commands need not spend

    try:
        return NodeConfig.from_settings(settings)
    except BadConfig as problem:
        # A name that is nearly right is in the message already.
        raise ChronikError(
            str(problem), None if problem.nearest else "see docs/configuration.md for the settings"
        ) from None


def has_secrets(settings: Mapping[str, str]) -> bool:
    """Whether a file with these is for its owner only."""
    return any(key.endswith((".password", "sasl.jaas.config", ".key")) for key in settings)


def as_toml(node_id: int, settings: Mapping[str, str]) -> str:
    """A config file. Numbers and truths are written bare, all else as strings."""
    lines = [
        f"# Node {node_id} of a cluster that `chronik cluster start` made. It is read when the node starts, so change",
        f"# what you like and `chronik cluster restart {node_id}`. The settings are in docs/configuration.md.",
        "",
    ]
    for key, value in settings.items():
        is_bare = value in ("true", "false") or (value.isdecimal() and str(int(value)) == value)
        lines.append(f"{key} = {value if is_bare else json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def with_voters(text: str, voters: str) -> str:
    """The file with these voters, and everything else as the user has it. Raises BadConfig."""
    wanted = {**parse_toml(text), VOTERS: voters}
    newline = "\r\n" if "\r\n" in text else "\n"
    above, tables = _without(VOTERS, text)
    if above and not above[-1].endswith("\n"):
        above.append(newline)
    # Quoted, it does not open a table, which would be opened twice where the file has a table [controller].
    for key in (VOTERS, f'"{VOTERS}"'):
        changed = "".join([*above, f"{key} = {json.dumps(voters)}{newline}", *tables])
        if _reads_as(changed, wanted):
            return changed
    raise BadConfig(VOTERS, f"{VOTERS} is written in a way that only a person can change")


def _reads_as(text: str, wanted: Mapping[str, str]) -> bool:
    try:
        return parse_toml(text) == wanted
    except BadConfig:
        return False


def _without(key: str, text: str) -> tuple[list[str], list[str]]:
    """The file in pieces, without the setting: up to its last setting above the tables, and from there on."""
    above: list[str] = []
    rest: list[str] = []  # what was passed since the last setting, such as a comment that belongs to the first table
    header = ""
    for piece in _pieces(text):
        if piece.lstrip().startswith("["):
            header = piece
            rest.append(piece)
            continue
        names = parse_toml(header + piece)
        if key in names:
            continue
        rest.append(piece)
        if names and not header:
            above, rest = above + rest, []
    return above, rest


def _pieces(text: str) -> Iterator[str]:
    """Each setting with all lines of its value, each other line by itself. The file must be well formed."""
    piece = ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        piece += line
        if _is_complete(piece):
            yield piece
            piece = ""


def _is_complete(piece: str) -> bool:
    """An array or a long string may go on in the next line; the TOML parser knows where it ends."""
    try:
        tomllib.loads(piece)
    except tomllib.TOMLDecodeError:
        return False
    return True
