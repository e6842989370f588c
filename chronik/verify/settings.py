"""What a run is to do. Kept with its outcome, so that runs can be compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from chronik.verify.errors import RunCannotStart

MESSAGES_MAX = 100_000_000
REPLICATION = 3
VALUE_BYTES_MIN = 40  # the number, and whose it is


class ClientName(StrEnum):
    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent"
    AIOKAFKA = "aiokafka"


class VerifyAcks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Spread(StrEnum):
    """Who says which partition a message goes to."""

    EVEN = "even"  # we do, in turn
    CLIENT = "client"  # the client's own partitioner


@dataclass(frozen=True)
class VerifySettings:
    """The defaults are the run that this project began with (mission: 5,000 messages, of which 3,819 arrived)."""

    bootstrap: str
    messages: int = 5_000
    partitions: int = 3
    replication: int | None = None
    """None: three, or as many as there are nodes."""
    acks: VerifyAcks = VerifyAcks.LEADER
    client: ClientName = ClientName.KAFKA_PYTHON
    timeout_s: float = 60.0
    """For consuming, all in all."""
    max_poll_records: int = 500
    value_bytes: int = 100
    idempotent: bool | None = None
    """None: with acks=all, where it costs nothing."""
    send_timeout_s: float = 60.0
    """For one message, from sending it to its acknowledgement."""
    topic: str | None = None
    group: str | None = None
    is_assigned: bool = False
    """No group: the partitions are read directly."""
    spread: Spread = Spread.EVEN
    is_kept: bool = False
    note: str = ""

    @property
    def is_idempotent(self) -> bool:
        return self.acks is VerifyAcks.ALL if self.idempotent is None else self.idempotent

    def check(self) -> None:
        """Raises RunCannotStart for what contradicts itself."""
        if self.is_idempotent and self.acks is not VerifyAcks.ALL:
            raise RunCannotStart(f"an idempotent producer needs acks=all, not acks={self.acks}", "give --acks all")
        if self.group is not None and self.is_assigned:
            raise RunCannotStart("a group and --assign contradict each other", "give one of them")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"is_idempotent": self.is_idempotent}
