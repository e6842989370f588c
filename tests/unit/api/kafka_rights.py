"""Facts: which operation on which resource each request needs, as Kafka's documentation has it (security, "Operations
and Resources on Protocols"), for the requests that we speak. A right that stands for another is not listed there:
Read, Write, Delete and Alter include Describe, AlterConfigs includes DescribeConfigs.

Where Kafka's own code asks for something else than its page says, or for more, the code counts: `CORRECTED`.
"""

from __future__ import annotations

# By API key: pairs of an operation and a resource.
DOCUMENTED: dict[int, tuple[tuple[str, str], ...]] = {
    0: (("Write", "TransactionalId"), ("IdempotentWrite", "Cluster"), ("Write", "Topic")),
    1: (("ClusterAction", "Cluster"), ("Read", "Topic")),
    2: (("Describe", "Topic"),),
    3: (("Describe", "Topic"), ("Create", "Cluster"), ("Create", "Topic")),
    8: (("Read", "Group"), ("Read", "Topic")),
    9: (("Describe", "Group"), ("Describe", "Topic")),
    10: (("Describe", "Group"), ("Describe", "TransactionalId")),
    11: (("Read", "Group"),),
    12: (("Read", "Group"),),
    13: (("Read", "Group"),),
    14: (("Read", "Group"),),
    15: (("Describe", "Group"),),
    16: (("Describe", "Cluster"), ("Describe", "Group")),
    17: (),
    18: (),
    19: (("Create", "Cluster"), ("Create", "Topic")),
    20: (("Delete", "Topic"),),
    21: (("Delete", "Topic"),),
    22: (("Write", "TransactionalId"), ("IdempotentWrite", "Cluster")),
    23: (("ClusterAction", "Cluster"), ("Describe", "Topic")),
    24: (("Write", "TransactionalId"), ("Write", "Topic")),
    25: (("Write", "TransactionalId"), ("Read", "Group")),
    26: (("Write", "TransactionalId"),),
    27: (("Alter", "Cluster"), ("ClusterAction", "Cluster")),
    28: (("Write", "TransactionalId"), ("Read", "Group"), ("Read", "Topic")),
    29: (("Describe", "Cluster"),),
    30: (("Alter", "Cluster"),),
    31: (("Alter", "Cluster"),),
    32: (("DescribeConfigs", "Cluster"), ("DescribeConfigs", "Topic")),
    33: (("AlterConfigs", "Cluster"), ("AlterConfigs", "Topic")),
    35: (("Describe", "Cluster"),),
    36: (),
    37: (("Alter", "Topic"),),
    38: (("CreateTokens", "User"),),
    39: (),
    40: (),
    41: (("Describe", "DelegationToken"), ("DescribeTokens", "User")),
    42: (("Delete", "Group"),),
    43: (("ClusterAction", "Cluster"),),
    44: (("AlterConfigs", "Cluster"), ("AlterConfigs", "Topic")),
    45: (("Alter", "Cluster"),),
    46: (("Describe", "Cluster"),),
    47: (("Delete", "Group"), ("Read", "Topic")),
    48: (("DescribeConfigs", "Cluster"),),
    49: (("AlterConfigs", "Cluster"),),
    50: (("Describe", "Cluster"),),
    51: (("Alter", "Cluster"),),
    52: (("ClusterAction", "Cluster"),),
    53: (("ClusterAction", "Cluster"),),
    54: (("ClusterAction", "Cluster"),),
    55: (("Describe", "Cluster"),),
    56: (("ClusterAction", "Cluster"),),
    57: (("Alter", "Cluster"),),
    59: (("ClusterAction", "Cluster"),),
    60: (("Describe", "Cluster"),),
    61: (("Read", "Topic"),),
    62: (("ClusterAction", "Cluster"),),
    63: (("ClusterAction", "Cluster"),),
    64: (("Alter", "Cluster"),),
    65: (("Describe", "TransactionalId"),),
    66: (("Describe", "TransactionalId"),),
    67: (("ClusterAction", "Cluster"),),
    68: (("Read", "Group"),),
    69: (("Describe", "Group"),),
    74: (("DescribeConfigs", "Cluster"),),
    75: (("Describe", "Topic"),),
}
# By API key: what the page lacks, what it has that Kafka's broker does not ask about, and why.
CORRECTED: dict[int, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], str]] = {
    0: ((), (("IdempotentWrite", "Cluster"),), "KIP-679: since Kafka 3.0 Write on the topic is enough"),
    19: ((("DescribeConfigs", "Topic"),), (), "without it the answer has no settings and no counts (KIP-525)"),
    20: ((("Describe", "Topic"),), (), "without it a topic that is named by its id stays without its name"),
    22: ((("Write", "Topic"),), (), "KIP-679: Write on any topic is enough instead of IdempotentWrite"),
    24: ((("ClusterAction", "Cluster"),), (), "of the brokers that verify a transaction (KIP-890)"),
    32: ((("DescribeConfigs", "Group"),), (), "settings of groups (KIP-848)"),
    33: ((("AlterConfigs", "Group"),), (), "the same"),
    44: ((("AlterConfigs", "Group"),), (), "the same"),
    43: ((("Alter", "Cluster"),), (("ClusterAction", "Cluster"),), "Kafka's broker and controller ask for Alter"),
    60: ((), (("Describe", "Cluster"),), "only for the field of authorized operations: any client may ask"),
    65: ((("Describe", "Topic"),), (), "topics that are not to be seen are left out of the answer (KIP-664)"),
    68: ((("Describe", "Topic"),), (), "of topics that a member subscribes to"),
    69: ((("Describe", "Topic"),), (), "of topics that its members read"),
    80: ((("Alter", "Cluster"),), (), "not on the page (KIP-853)"),
    81: ((("Alter", "Cluster"),), (), "not on the page (KIP-853)"),
}


def needed(api_key: int) -> frozenset[tuple[str, str]]:
    """What Kafka asks its authorizer about for this request."""
    more, fewer, _ = CORRECTED.get(api_key, ((), (), ""))
    return frozenset((*DOCUMENTED.get(api_key, ()), *more)) - frozenset(fewer)
