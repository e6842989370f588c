"""Metadata: versions 8 to 10 also say what the client may do to the cluster (later, DescribeCluster does)."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass

from kio.schema.metadata.v13.response import MetadataResponseBroker, MetadataResponseTopic

from chronik.core.errors import Code

NOT_ASKED = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyMetadataTopic:
    """By name, or from version 12 by id."""

    topic_id: uuid.UUID | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyMetadataRequest:
    """Null topics means all of them; in version 0, which has no null, none means all."""

    topics: tuple[AnyMetadataTopic, ...] | None = None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyMetadataResponse:
    """The newest response and the field that came and went."""

    throttle_time: datetime.timedelta = datetime.timedelta(0)
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: int = NOT_ASKED
    error_code: Code = Code.NONE
