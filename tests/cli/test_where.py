"""`chronik where` as a user meets it, at one real node and at Apache Kafka, which tells less: and that is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from tests.cli.conftest import Chronik
from tests.cli.test_trace import needs_chronik
from tests.clients.apache_kafka import apache_kafka
from tests.clients.jvm import jars_of
from tests.clients.support import needs


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chronik]:
    needs("kafka tools")
    with apache_kafka(jars_of("tools"), tmp_path_factory.mktemp("kafka"), {}) as bootstrap:
        yield Chronik(bootstrap)


def test_another_kafka_tells_where_a_record_is_and_it_is_said_what_it_does_not_tell(kafka: Chronik, name: str) -> None:
    kafka.ok("topic", "create", name, "--partitions", "2")
    kafka.ok("produce", name, "--partition", "1", "--key-separator", ":", stdin="a:1\nb:2\nc:3\n")
    kafka.ok("consume", name, "--group", name, "--from-beginning", "--max-messages", "3")

    told = kafka.ok("where", name, "1", "2", "--json").json

    assert (told["place"], told["is_below_watermark"], told["is_below_last_stable_offset"]) == ("here", True, True)
    assert (told["log_start"], told["watermark"], told["last_stable_offset"]) == (0, 3, 3)
    assert (told["record"]["key"], told["record"]["value"]) == ("c", "3")
    assert [(copy["place"], copy["is_synced"]) for copy in told["copies"]] == [("here", None)]
    assert [(group["group"], group["has_it"]) for group in told["committed"]] == [(name, True)]
    assert (told["next_offset"], told["batch"], told["acknowledged"], told["delivered"]) == (-1, None, None, [])
    assert len(told["unknown"]) == 3

    shown = kafka.ok("where", name, "1", "2").out
    assert "not known: when it was acknowledged" in shown
    assert "this cluster is no Chronik" in " ".join(shown.split())
    (by_key,) = kafka.ok("where", name, "--key", "c", "--json").json
    assert (by_key["partition"], by_key["offset"]) == (1, 2)


def test_what_another_kafka_has_above_its_watermark_is_not_made_up(kafka: Chronik, name: str) -> None:
    kafka.ok("topic", "create", name)
    kafka.ok("produce", name, stdin="a\n")

    told = kafka.ok("where", name, "0", "1", "--json").json

    assert (told["place"], told["is_below_watermark"]) == ("above the watermark", False)
    assert "does not tell" in told["summary"]
    assert "only Chronik can" in kafka.refused("where", name, "--producer-id", "0", "--sequence", "0")


def test_of_transactions_at_another_kafka_only_what_is_known_is_said(kafka: Chronik, name: str) -> None:
    kafka.ok("topic", "create", name, "--partitions", "1")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.flush):
        producer.begin_transaction()
        producer.produce(name, b"x", partition=0)
        producer.flush(30)
        end(30)

    committed, marker, aborted, _, still_open = (
        kafka.ok("where", name, "0", str(offset), "--json").json for offset in range(5)
    )
    producer.abort_transaction(30)

    assert (committed["place"], committed["record"]["value"]) == ("here", "x")
    assert "so consumers can read it" in committed["summary"]
    assert marker["place"] == "no record"
    assert "marker of a transaction" in marker["summary"]
    assert "ompacted away" not in marker["summary"]
    assert (aborted["place"], aborted["record"]["value"]) == ("here", "x")
    assert "was aborted" in aborted["summary"]
    assert (still_open["place"], still_open["is_below_last_stable_offset"]) == ("here", False)
    assert "is open" in still_open["summary"]


@needs_chronik
def test_a_chronik_tells_all_of_it(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic("--config", "chronik.trace=true")
    chronik.ok("produce", topic, stdin="a\nb\n")

    told = chronik.ok("where", topic, "0", "1", "--json").json

    assert (told["place"], told["next_offset"], told["unknown"]) == ("here", 2, [])
    assert [(copy["place"], copy["is_synced"]) for copy in told["copies"]] == [("here", True)]
    assert told["acknowledged"]["answered_us"] >= told["acknowledged"]["appended_us"]


def test_bad_input_is_one_line(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()

    assert "has no partition 7" in chronik.refused("where", topic, "7", "1")
    assert "no topic" in chronik.refused("where", f"{topic}-not", "0", "1")
    assert "in one way" in chronik.refused("where", topic)
