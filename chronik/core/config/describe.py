"""Settings as DescribeConfigs tells them: value, source, and the chain of places a value could have come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chronik.core.config.definitions import ConfigType, Setting, Source
from chronik.core.config.group import GROUP_SETTINGS, GroupSettings
from chronik.core.config.node import NODE_SETTINGS, NodeConfig
from chronik.core.config.topic import TOPIC_SETTINGS, TopicConfig
from chronik.core.config.without_effect import WITHOUT_EFFECT

OURS = "chronik."
# Kafka knows these only while they are altered, and shows them only then.
SHOWN_WHEN_SET = frozenset(("follower.replication.throttled.rate", "leader.replication.throttled.rate"))


class ShownSynonym(NamedTuple):
    """One place a value is set in; the first of a chain is in force."""

    name: str
    value: str | None
    source: Source


class ShownConfig(NamedTuple):
    """One setting with its value in force."""

    name: str
    value: str | None
    source: Source
    is_read_only: bool
    synonyms: tuple[ShownSynonym, ...]
    type: ConfigType
    documentation: str


def describe_topic(node: NodeConfig, overrides: Mapping[str, str]) -> list[ShownConfig]:
    """Every setting of a topic, by name. Ours are shown as read-only: programs that copy a topic's settings to another
    cluster (MirrorMaker) leave those out, and Apache Kafka would refuse them. They can be altered all the same."""
    config = TopicConfig.from_overrides(node, overrides)
    shown: list[ShownConfig] = []
    for known in TOPIC_SETTINGS.values():
        value = known.show(getattr(config, known.attribute))
        chain = _chain(node, tuple(synonym.name for synonym in known.synonyms))
        if known.name in overrides:
            chain = (ShownSynonym(known.name, value, Source.TOPIC), *chain)
        shown.append(_shown(known, value, chain, is_read_only=known.name.startswith(OURS)))
    return shown


def describe_group(node: NodeConfig, overrides: Mapping[str, str]) -> list[ShownConfig]:
    """Every setting of a group, by name."""
    config = GroupSettings.from_overrides(node.groups, overrides)
    shown: list[ShownConfig] = []
    for known in GROUP_SETTINGS.values():
        value = known.show(getattr(config, known.attribute))
        chain = _chain(node, tuple(synonym.name for synonym in known.synonyms))
        if known.name in overrides:
            chain = (ShownSynonym(known.name, value, Source.GROUP), *chain)
        shown.append(_shown(known, value, chain, is_read_only=False))
    return shown


def describe_node(node: NodeConfig) -> list[ShownConfig]:
    """Every setting of a node, by name."""
    shown: list[ShownConfig] = []
    for known in NODE_SETTINGS.values():
        if known.name in SHOWN_WHEN_SET and node.value_of(known.name) == known.default:
            continue
        value = known.show(node.value_of(known.name))
        shown.append(_shown(known, value, _chain(node, (known.name,)), is_read_only=not known.is_dynamic))
    altered = {name for layer in (node.own, node.cluster_wide) for name in layer if name in WITHOUT_EFFECT}
    return shown + [_without_effect(node, name) for name in sorted(altered)]


def describe_cluster_wide(node: NodeConfig) -> list[ShownConfig]:
    """What AlterConfigs set for all nodes: the broker resource without a name."""
    shown: list[ShownConfig] = []
    for name, text in sorted(node.cluster_wide.items()):
        if name in WITHOUT_EFFECT:
            shown.append(_without_effect(node, name, (node.cluster_wide, Source.DYNAMIC_CLUSTER)))
            continue
        known = NODE_SETTINGS[name]
        value = known.show(known.parse(text))
        shown.append(_shown(known, value, (ShownSynonym(name, value, Source.DYNAMIC_CLUSTER),), is_read_only=False))
    return shown


def _without_effect(node: NodeConfig, name: str, *layers: tuple[Mapping[str, str], Source]) -> ShownConfig:
    """A setting of Kafka's that was altered here and changes nothing."""
    layers = layers or ((node.own, Source.DYNAMIC_BROKER), (node.cluster_wide, Source.DYNAMIC_CLUSTER))
    chain = tuple(ShownSynonym(name, layer[name], source) for layer, source in layers if name in layer)
    documentation = "A setting of Kafka's that has no effect here."
    return ShownConfig(name, chain[0].value, chain[0].source, False, chain, ConfigType.STRING, documentation)


def _shown(known: Setting, value: str | None, chain: tuple[ShownSynonym, ...], is_read_only: bool) -> ShownConfig:
    source = chain[0].source if chain else Source.DEFAULT
    return ShownConfig(known.name, value, source, is_read_only, chain, known.shown_type, known.documentation)


def _chain(node: NodeConfig, names: tuple[str, ...]) -> tuple[ShownSynonym, ...]:
    """Layer by layer, the names that are set there. Kafka leaves the chain of retention.ms out unless log.retention.ms
    itself is set; we show log.retention.hours too, since that is where the value comes from."""
    chain: list[ShownSynonym] = []
    layers = (
        (node.own, Source.DYNAMIC_BROKER),
        (node.cluster_wide, Source.DYNAMIC_CLUSTER),
        (node.given, Source.STATIC_BROKER),
    )
    for layer, source in layers:
        for name in names:
            if name in layer:
                chain.append(ShownSynonym(name, _as_shown(name, layer[name]), source))
    for name in names:
        default: Any = NODE_SETTINGS[name].default
        if default is not None:
            chain.append(ShownSynonym(name, NODE_SETTINGS[name].show(default), Source.DEFAULT))
    return tuple(chain)


def _as_shown(name: str, text: str) -> str | None:
    return NODE_SETTINGS[name].show(NODE_SETTINGS[name].parse(text))
