"""For other people's tests: a real node on a free port, up in well under a second.

    with chronik.testing.node() as node:
        producer = KafkaProducer(bootstrap_servers=node.bootstrap)

The node is a child process with a data directory of its own, removed at the end unless one was given. The pytest
plugin (`chronik.testing.plugin`) has it as fixtures.
"""

from __future__ import annotations

from chronik.testing.node import NodeDied, RunningNode, node

__all__ = ["NodeDied", "RunningNode", "node"]
