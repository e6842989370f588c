"""Random histories of several producers, ends, fences, timeouts and failovers, against a model that knows the rules."""

from __future__ import annotations

import random

import pytest

from chronik.core.errors import Code
from chronik.core.machines.transactions.commands import PartitionsAdded, ProducerIdentity
from chronik.core.machines.transactions.transaction import FOLLOWS, TransactionStatus
from tests.unit.core.machines.transactions.machine_host import BILLS_0, ID, ORDERS_0, ORDERS_1, Host

S = TransactionStatus
PARTITIONS = (ORDERS_0, ORDERS_1, BILLS_0)


class Instance:
    """A producer of one protocol, with the identity it was last given."""

    def __init__(self, identity: ProducerIdentity, client: int) -> None:
        self.identity = identity
        self.client = client
        self.has_begun = False


class History:
    """Does one thing after the other, and holds each answer against what must be true."""

    def __init__(self, seed: int, version: int) -> None:
        self.dice = random.Random(seed)
        self.host = Host(version)
        self.instances: list[Instance] = []
        self.newest: Instance | None = None
        self.given: set[ProducerIdentity] = set()
        self.outcomes: dict[tuple[int, int], bool] = {}  # one outcome for each identity that markers had

    def step(self) -> None:
        before = self.host.machine.transactions.get(ID)
        moves = [
            self.begin,
            self.add,
            self.add,
            self.end,
            self.end,
            self.markers,
            self.markers,
            self.wait,
            self.fail_over,
        ]
        self.dice.choice(moves)()
        after = self.host.machine.transactions.get(ID)
        if before is not None and after is not None and before != after:
            assert after.status in FOLLOWS[before.status] or before.status == after.status
            assert after.producer_id != before.producer_id or after.producer_epoch >= before.producer_epoch
        if after is not None and after.is_prepared:
            key = after.producer_id, after.producer_epoch
            if before is None or not before.is_prepared:
                is_repeated_epoch = after.client_version < 2  # the older protocol ends many in one epoch
                assert is_repeated_epoch or key not in self.outcomes, "two outcomes with one epoch"
            else:
                assert self.outcomes[key] == after.is_commit, "an outcome changed"
            self.outcomes[key] = after.is_commit

    def begin(self) -> None:
        answer = self.host.init()
        if isinstance(answer, ProducerIdentity):
            assert answer not in self.given, "an identity was given out twice"
            self.given.add(answer)
            client = 2 if self.host.version == 2 and self.dice.random() < 0.5 else 0
            self.newest = Instance(answer, client)
            self.instances.append(self.newest)
        else:
            assert answer is Code.CONCURRENT_TRANSACTIONS
            self.newest = None  # whatever it was, it is fenced now or will be

    def _some(self) -> Instance | None:
        return self.dice.choice(self.instances) if self.instances else None

    def add(self) -> None:
        one = self._some()
        if one is None:
            return
        known = self.host.transaction
        answer = self.host.add(one.identity, self.dice.choice(PARTITIONS), client=one.client)
        if answer == PartitionsAdded():
            assert one.identity == (known.producer_id, known.producer_epoch)
            one.has_begun = True
        elif one.identity.producer_id == known.producer_id and one.identity.producer_epoch != known.producer_epoch:
            assert answer is Code.PRODUCER_FENCED

    def end(self) -> None:
        one = self._some()
        if one is None:
            return
        known, commit = self.host.transaction, self.dice.random() < 0.5
        answer = self.host.end(one.identity, commit=commit, client=one.client)
        if isinstance(answer, ProducerIdentity):
            if known.status is S.ONGOING:
                assert one.identity == (known.producer_id, known.producer_epoch), "a fenced producer ended one"
            if self.dice.random() < 0.8:  # else the answer is lost
                one.identity = answer
                self.given.add(answer)
        elif answer is Code.PRODUCER_FENCED:
            assert self.host.transaction == known

    def markers(self) -> None:
        if self.host.machine.transactions:
            self.host.markers()

    def wait(self) -> None:
        self.host.now_ms += self.dice.choice([1, 1_000, 61_000])
        self.host.expire()
        known = self.host.machine.transactions.get(ID)
        if known is not None and known.status is S.ONGOING:
            assert self.host.now_ms < known.start_ms + known.timeout_ms, "a transaction hangs"

    def fail_over(self) -> None:
        before = dict(self.host.machine.transactions)
        self.host = self.host.replayed()
        for transactional_id, old in before.items():
            new = self.host.machine.transactions[transactional_id]
            same = ("producer_id", "producer_epoch", "status", "partitions", "start_ms")
            if self.host.now_ms < old.start_ms + old.timeout_ms or old.status is not S.ONGOING:
                assert all(getattr(new, name) == getattr(old, name) for name in same)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("seed", range(60))
def test_a_random_history_keeps_every_rule(version: int, seed: int) -> None:
    history = History(seed, version)
    for _ in range(150):
        history.step()
