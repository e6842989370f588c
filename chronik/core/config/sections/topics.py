"""How topics are created and deleted."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import BOOLEAN, INT, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class TopicsConfig(Section):
    """How topics are created and deleted."""

    num_partitions: int = setting(INT, 1, "Partitions of a topic created without a number.", at_least(1))
    default_replication_factor: int = setting(INT, 1, "Replicas of a topic created without a number.", at_least(1))
    auto_create_topics_enable: bool = setting(BOOLEAN, True, "Whether asking for a topic creates it.")
    delete_topic_enable: bool = setting(BOOLEAN, True, "Whether topics can be deleted.")
