"""How the nodes are set up: configs with their source, the quorum, features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chronik.console.pages.frame import Frame
from chronik.console.sight import NodeSight


@dataclass(frozen=True)
class ConfigShown:
    name: str
    value: str | None
    source: str
    is_read_only: bool


@dataclass(frozen=True)
class VoterShown:
    node: int
    role: str
    log_end: int
    behind: int
    caught_up_at: str | None


@dataclass(frozen=True)
class QuorumShown:
    leader: int
    epoch: int
    high_watermark: int
    voters: tuple[VoterShown, ...]


@dataclass(frozen=True)
class FeatureShown:
    name: str
    level: int
    supported: str


@dataclass(frozen=True)
class SettingsPage:
    frame: Frame
    nodes: tuple[NodeSight, ...]
    node: int | None
    query: str
    is_every: bool
    configs: tuple[ConfigShown, ...]
    configs_total: int
    quorum: QuorumShown | None
    features: tuple[FeatureShown, ...]
    problems: tuple[str, ...]
    """What could not be asked, and why."""


def settings_page(
    frame: Frame,
    nodes: Sequence[NodeSight],
    node: int | None,
    query: str,
    is_every: bool,
    configs: Sequence[ConfigShown],
    quorum: QuorumShown | None,
    features: Sequence[FeatureShown],
    problems: Sequence[str],
) -> SettingsPage:
    words = query.lower().split()
    fitting = [config for config in configs if all(word in config.name.lower() for word in words)]
    shown = [config for config in fitting if is_every or words or config.source != "default"]
    return SettingsPage(
        frame, tuple(nodes), node, query, is_every, tuple(shown), len(configs), quorum, tuple(features), tuple(problems)
    )


def source_words(source: str) -> str:
    return SOURCES.get(source, source.lower().replace("_", " "))


SOURCES: Mapping[str, str] = {
    "DEFAULT_CONFIG": "default",
    "STATIC_BROKER_CONFIG": "config file",
    "DYNAMIC_BROKER_CONFIG": "set for this node",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "set for all nodes",
    "DYNAMIC_TOPIC_CONFIG": "topic",
}
