"""Reads a config file: TOML, or Kafka's `server.properties`."""

from __future__ import annotations

from chronik.core.config.definitions import BadConfig
from chronik.core.config.parse import parse_properties, parse_toml
from chronik.shell.errors import StartError


def read_config_file(path: str) -> dict[str, str]:
    """Its settings as text by name. Raises StartError."""
    try:
        with open(path, encoding="utf-8") as source:
            text = source.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise StartError(
            f"the config file {path} cannot be read: {problem}", "check the path given with --config"
        ) from problem
    try:
        return parse_toml(text) if path.endswith(".toml") else parse_properties(text)
    except BadConfig as problem:
        raise StartError(
            f"the config file {path} is not well formed: {problem}", "it is TOML (.toml) or key=value lines"
        ) from problem
