"""What a client may do, as bits of Kafka's operation numbers. Without access control: everything there is to do."""

from __future__ import annotations

NOT_ASKED = -(2**31)

# READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
ALL_ON_TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
# CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
ALL_ON_CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
# READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
ALL_ON_GROUP = sum(1 << operation for operation in (3, 6, 8, 10, 11))
