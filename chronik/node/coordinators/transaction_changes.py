"""What becomes of this node's transactions, as the trace reports it: begun, partitions added, prepared, complete.

A fact of the machine has what was before beside what is now, so nothing is remembered here.
"""

from __future__ import annotations

from chronik.core.machines.transactions.facts import TransactionSet
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus
from chronik.trace.observer import Observer


def report(fact: TransactionSet, observer: Observer) -> None:
    """To be called while something is observed."""
    now, before = fact.transaction, fact.before
    if now.status is TransactionStatus.ONGOING:
        is_new = before is None or before.status is not TransactionStatus.ONGOING
        if is_new:
            observer.transaction_begun(now)
        known = frozenset() if before is None or is_new else before.partitions
        for partition in sorted(now.partitions - known):
            observer.transaction_partition_added(now, partition)
    elif now.is_prepared:
        observer.transaction_prepared(now, fact.reason, _passed_ms(now.start_ms, now))
    elif before is not None and before.is_prepared:
        observer.transaction_completed(now, _passed_ms(before.last_update_ms, now))


def _passed_ms(since_ms: int, now: Transaction) -> int:
    """Clocks may be set back."""
    return max(now.last_update_ms - since_ms, 0)
