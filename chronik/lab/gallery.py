"""The gallery: every fault with what it is, which clients show it, and the cause that must be named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronik.lab.loads import Habits
from chronik.trace.verdicts import Cause

HEALTHY = "healthy"
# Long enough to be looked at; a node's default would take the follower out of the in-sync set after 30 s.
PATIENT_LEADERS = {"replica.lag.time.max.ms": "600000"}
COMPACTING = {"log.cleaner.backoff.ms": "2000"}
# So many messages that every partition gets past where the faults begin, and no longer than they take to be named.
ENOUGH_MESSAGES = "--messages 3000 --timeout 8 --send-timeout 6"


@dataclass(frozen=True)
class Exhibit:
    """One fault to be looked at."""

    name: str
    what: str  # goes wrong, in one sentence
    seen: str  # by the users of such a cluster
    cause: Cause | None  # what it must be called; None: there is nothing wrong
    habits: Habits = field(default_factory=Habits)
    settings: Mapping[str, str] = field(default_factory=dict)  # of every node
    faulty_nodes: tuple[int, ...] = (1, 2, 3)  # with the fault of this name built in
    verify_options: str | None = None  # with which `chronik verify` meets it; None: it is not in the nodes


EXHIBITS = (
    Exhibit(
        HEALTHY,
        "Nothing is wrong: a writer, readers fast and slow, an empty topic, an idle group, a compacted topic.",
        "Everything that is written is read a moment later, by all but the slow reader.",
        None,
        habits=Habits(has_bystanders=True),
        settings=COMPACTING,
        faulty_nodes=(),
    ),
    Exhibit(
        "follower-stops-fetching",
        "Node 3 asks its leaders for nothing more. It counts as in sync, so they wait for it.",
        "Partitions led by nodes 1 and 2 take messages (acks=1), but consumers get none of them.",
        Cause.WATERMARK_STANDS_STILL,
        settings=PATIENT_LEADERS,
        faulty_nodes=(3,),
        verify_options=ENOUGH_MESSAGES,
    ),
    Exhibit(
        "metadata-lists-one-node",
        "Every node tells clients that it is the only one and leads everything, and sends nothing on.",
        "A client that knows one address is refused two messages of three, however often it tries.",
        Cause.REFUSED_FOR_LEADERSHIP,
        habits=Habits(knows_one_node=True),
        verify_options=ENOUGH_MESSAGES,
    ),
    Exhibit(
        "watermark-stands-still",
        "Leaders stop moving the high watermark, although every follower has everything.",
        "Messages are appended, and no consumer gets to read them.",
        Cause.WATERMARK_STANDS_STILL,
        verify_options=ENOUGH_MESSAGES,
    ),
    Exhibit(
        "fetch-hangs",
        "A fetch is not answered although there is something to give.",
        "The consumer waits. It has nothing to complain about until its own timeout, and then asks again.",
        Cause.FETCH_HANGS,
        verify_options=ENOUGH_MESSAGES,
    ),
    Exhibit(
        "partition-starved",
        "Answers never hold anything of partition 1, as if the others always filled them.",
        "Two partitions of three are read, one stays behind.",
        Cause.PARTITION_BEHIND,
        verify_options=ENOUGH_MESSAGES,
    ),
    Exhibit(
        "client-timeout-too-short",
        "A reader gives up after 300 ms, and has asked the node to wait 5 s for 50 MB.",
        "It hangs up before every answer, asks again, and never gets anything. The cluster is well.",
        Cause.CLIENT_LIMIT,
        habits=Habits(is_impatient=True),
        faulty_nodes=(),
    ),
    Exhibit(
        "consumer-stops",
        "The reader is alive, keeps its place in the group, and asks for nothing more.",
        "Its lag grows, and nothing else may read its partitions.",
        Cause.CONSUMER_STOPPED,
        habits=Habits(stops_after=2_400),
        faulty_nodes=(),
    ),
    Exhibit(
        "group-rebalances",
        "A member joins the group and leaves it again, over and over.",
        "Every time all members stop reading until the partitions are dealt out anew.",
        Cause.GROUP_REBALANCING,
        habits=Habits(comes_and_goes=True),
        faulty_nodes=(),
    ),
    Exhibit(
        "producer-dies-in-a-transaction",
        "A producer writes to three partitions in a transaction, and is never heard of again.",
        "A reader with read_committed gets nothing more of them, until the transaction's timeout, though others write.",
        Cause.TRANSACTION_HANGS,
        habits=Habits(reads_committed=True, dies_in_transaction=True),
        faulty_nodes=(),
    ),
    Exhibit(
        "coordinator-cannot-reach-a-partition",
        "Nodes 1 and 2 coordinate transactions, and their markers do not get to node 3.",
        "Transactions are committed, and a reader with read_committed gets nothing of partitions that node 3 leads.",
        Cause.TRANSACTION_HANGS,
        habits=Habits(reads_committed=True, commits_transactions=True),
        faulty_nodes=(1, 2),
    ),
)

GALLERY: Mapping[str, Exhibit] = {exhibit.name: exhibit for exhibit in EXHIBITS}
