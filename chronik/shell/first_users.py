"""The first users of a cluster: without one no client could log in to make others."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.access_changes import AlterUserScramCredentials, ScramUpsertion
from chronik.node.node import Node

log = logging.getLogger(__name__)
ASK_MS = 30_000


async def make_first_users(node: Node, users: Sequence[ScramUpsertion]) -> None:
    """Where the cluster has no users of SCRAM yet: one that was removed later does not come back with a restart. Raises
    Refused."""
    if not users or node.image.access.scram:
        return
    names = sorted({one.user for one in users})
    # One command may name a user once only, so each mechanism has its own. The stronger goes first: a crash in between
    # leaves users that can log in.
    for mechanism in sorted({one.mechanism for one in users}, reverse=True):
        command = AlterUserScramCredentials(upsertions=tuple(one for one in users if one.mechanism == mechanism))
        for user, outcome in (await node.cluster.controller.ask(command, ASK_MS)).items():
            if outcome.code is not Code.NONE:
                raise Refused(outcome.code, f"user {user} cannot be made: {outcome.message or outcome.code.name}")
    log.info("made the first users: %s", ", ".join(names))
