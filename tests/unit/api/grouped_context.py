"""A desk whose groups are a real groups machine, safe at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chronik.api.context import RequestContext
from chronik.core.errors import Refused
from chronik.core.machines.groups.config import GroupConfig
from tests.unit.api.fake_context import fake_context, groups_of
from tests.unit.core.machines.groups.host import Host


def grouped_context(
    topics: Mapping[str, int] | None = None, config: GroupConfig | None = None
) -> tuple[RequestContext, Host]:
    """The desk, and the host of the machine behind it."""
    context = fake_context(topics=topics)
    host = Host(config)

    def answer(group_id: str, command: Any) -> Any:
        found = host.answers.get(host.send(command))
        assert found is not None, "the answer has to wait for others: send them first"
        if isinstance(found, Refused):
            raise found
        return found

    groups_of(context).answer = answer
    groups_of(context).all_machines = [host.machine]
    return context, host


def refusing_desk(refusal: Refused, topics: Mapping[str, int] | None = None) -> RequestContext:
    """A desk whose coordinator says no."""
    context = fake_context(topics=topics)

    def answer(group_id: str, command: Any) -> Any:
        raise refusal

    groups_of(context).answer = answer
    return context
