"""DeleteTopics: names alone up to version 5, names or ids from version 6."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyDeleteTopicsTopic:
    """By name or by id."""

    name: str | None = None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyDeleteTopicsRequest:
    """`topics` from version 6, `topic_names` before."""

    topics: tuple[AnyDeleteTopicsTopic, ...] = ()
    topic_names: tuple[str, ...] = ()
    timeout: datetime.timedelta = datetime.timedelta(0)
