"""What authorization speaks of: an operation on a resource. The numbers are those of Kafka's ACL requests."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class AclOperation(IntEnum):
    """As Kafka's AclOperation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResourceType(IntEnum):
    """As Kafka's ResourceType. (That of configurations is another: core/machines/metadata/commands.)"""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Access(NamedTuple):
    """An operation on a kind of resource; which resource, the request says."""

    operation: AclOperation
    resource_type: AclResourceType
