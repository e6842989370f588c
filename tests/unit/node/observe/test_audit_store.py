"""Where the audit trail goes: to a partition of its topic that this node leads, while the setting says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from chronik.api.context import Caller
from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.commands import CreateInternalTopic
from chronik.core.machines.metadata.names import AUDIT_TOPIC, is_internal
from chronik.core.records.payload import walk
from chronik.node.observe.audit_store import FLUSH_S, AuditStore
from chronik.sim.loop import SimLoop
from chronik.trace.audit import AuditTrail
from tests.unit.node.copies import pass_time
from tests.unit.node.fakes import NODE_ID, FakeChance, House

ROOM = 10**9
ALICE = Caller("app", "10.0.0.7", 7, 1)
STORED = NodeConfig.from_settings({"chronik.audit.store": "true", "chronik.audit.log": "false"})


class Stored:
    """A house with an audit trail."""

    def __init__(self, config: NodeConfig) -> None:
        self.house = House(topics={"orders": 1}, config=config)
        self.trail = AuditTrail(NODE_ID, self.house.clock, logs=lambda: False)
        self.asked: list[Any] = []
        self.store = AuditStore(
            self.trail,
            self.house.image,
            self.house.replicas,
            self.ask_controller,
            self.house.clock,
            FakeChance(),
            self.house.metrics,
            NODE_ID,
        )

    async def ask_controller(self, command: Any) -> Any:
        self.asked.append(command)
        return self.house.tell(command)

    def lines(self) -> list[dict[str, Any]]:
        plan = self.house.replicas.leader(AUDIT_TOPIC, 0).log.read(0, ROOM, ROOM, at_least_one=True)
        records = [] if plan is None else walk(plan.file.read(plan.position, plan.length))
        return [json.loads(line) for record in records for line in (record.value or b"").splitlines()]


def run(test: Callable[[], Coroutine[Any, Any, Stored]]) -> None:
    loop = SimLoop()

    async def through() -> None:
        kept = await test()
        kept.store.stop()
        await kept.house.replicas.sync_rounds.wait_until_idle()
        assert kept.house.metrics.faults == 0

    try:
        loop.run_until_complete(through())
    finally:
        loop.close()


async def pause() -> None:
    await pass_time(int(FLUSH_S * 3000))


def test_lines_are_stored_in_a_topic_that_is_made_when_it_is_needed() -> None:
    async def go() -> Stored:
        kept = Stored(STORED)
        kept.store.start()
        await pause()
        assert not kept.asked  # nothing has happened, and there is no topic for it
        kept.trail.login(ALICE, "SASL")
        kept.trail.changed(ALICE, "delete_topics", ["TOPIC a"], ["NONE"])
        await pause()
        assert [type(command) for command in kept.asked] == [CreateInternalTopic]
        assert [line["kind"] for line in kept.lines()] == ["login", "change"]
        kept.trail.lost = 5
        kept.trail.login(ALICE, "SASL")
        kept.store.flush()
        assert [line.get("counts") for line in kept.lines()][2:] == [{"not_stored": 5}, None]
        assert kept.trail.lost == 0
        return kept

    run(go)


def test_without_the_setting_nothing_is_stored_and_no_topic_made() -> None:
    async def go() -> Stored:
        kept = Stored(NodeConfig())
        kept.store.start()
        kept.trail.login(ALICE, "SASL")
        await pause()
        assert not kept.asked
        assert not kept.trail.pending
        return kept

    run(go)


def test_clients_do_not_write_to_it() -> None:
    assert is_internal(AUDIT_TOPIC)
