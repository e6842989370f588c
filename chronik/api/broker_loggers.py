"""The loggers of this node's process as a config resource: their levels can be seen and set while it runs (KIP-412).

They have the names of the modules that log (`chronik.node.routing.dispatch`), and stand below one another as those do;
`root` is above them all. A level that is set holds until the process ends.
"""

from __future__ import annotations

import logging

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ConfigChange, ConfigOperation

ROOT = "root"
LEVELS = {
    "TRACE": logging.DEBUG // 2,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> list[tuple[str, str]]:
    """Every logger that there is, with the level in force."""
    loggers = {
        name: logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.split(".")[0] == "chronik"
    }
    found = {"chronik": logging.getLogger("chronik"), **loggers, ROOT: logging.getLogger()}
    return [(name, _name_of(logger.getEffectiveLevel())) for name, logger in sorted(found.items())]


def check_node(name: str, node_id: int) -> None:
    """Whether the resource is this node. Raises Refused."""
    if not (name.isascii() and name.isdigit()):
        raise Refused(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise Refused(Code.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def alter(change: ConfigChange, node_id: int, *, validate_only: bool) -> None:
    """Set levels, or take them back: then that of the logger above holds. All or none. Raises Refused."""
    check_node(change.resource_name, node_id)
    known = {name for name, _ in levels()}
    wanted = [(key, _level(known, key, operation, value)) for key, operation, value in change.operations]
    if not validate_only:
        for key, level in wanted:
            logging.getLogger(None if key == ROOT else key).setLevel(level)


def _level(known: set[str], name: str, operation: int, value: str | None) -> int:
    """Raises Refused, in Kafka's words."""
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        kinds = {ConfigOperation.APPEND: "APPEND", ConfigOperation.SUBTRACT: "SUBTRACT"}
        kind = kinds.get(operation, f"Unknown ({operation})")  # type: ignore[call-overload]
        raise Refused(Code.INVALID_REQUEST, f"{kind} operation is not allowed for the BROKER_LOGGER resource")
    if name not in known:
        raise Refused(Code.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == ConfigOperation.DELETE:
        if name == ROOT:
            raise Refused(Code.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
        return logging.NOTSET
    if value not in LEVELS:
        raise Refused(
            Code.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log levels are"
            f" {', '.join(sorted(LEVELS))}",
        )
    return LEVELS[value]


def _name_of(level: int) -> str:
    """The most severe of Kafka's levels that lets all of it through."""
    return max((number, name) for name, number in LEVELS.items() if number <= max(level, LEVELS["TRACE"]))[1]
