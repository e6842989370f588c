"""What a user may say to the source and the sink, and what he is told otherwise."""

from __future__ import annotations

import pytest

from chronik.core.records.batch import COMPRESSION_NAMES
from chronik.pipeline.topics.options import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    BadOption,
    Everywhere,
    Topics,
    read_options,
    write_options,
)

SOMEWHERE = {"kafka.bootstrap.servers": "one:9092, [::1]:9093", "subscribe": "orders"}


def test_a_batch_reads_all_there_is_and_a_stream_what_comes() -> None:
    batch = read_options(SOMEWHERE, is_streaming=False)
    stream = read_options(SOMEWHERE, is_streaming=True)

    assert (batch.starting, batch.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert stream.starting == Everywhere(LATEST)
    assert batch.client.bootstrap == (("one", 9092), ("::1", 9093))
    assert batch.fails_on_data_loss
    assert not batch.has_headers


def test_names_of_options_are_taken_in_any_case_as_spark_hands_them_over() -> None:
    said = {
        "KAFKA.bootstrap.SERVERS": "h:1",
        "subscribepattern": "a.*",
        "STARTINGOFFSETS": "Earliest",
        "maxoffsetspertrigger": "10",
    }

    options = read_options(said, is_streaming=True)

    assert options.topics == Topics(pattern="a.*")
    assert options.starting == Everywhere(EARLIEST)
    assert options.max_offsets_per_trigger == 10


def test_topics_are_named_matched_or_assigned() -> None:
    server = {"kafka.bootstrap.servers": "h:1"}

    named = read_options({**server, "subscribe": "a, b,,a"}, is_streaming=False)
    assigned = read_options({**server, "assign": '{"a": [2, 0]}'}, is_streaming=False)

    assert named.topics.names == ("a", "b")
    assert assigned.topics.assigned == {"a": (0, 2)}


def test_a_time_stands_above_times_and_those_above_offsets() -> None:
    offsets = {"startingOffsets": '{"orders": {"0": 23, "1": -2}}'}
    times = {"startingOffsetsByTimestamp": '{"orders": {"0": 1000}}'}

    assert read_options({**SOMEWHERE, **offsets}, is_streaming=True).starting == AtOffsets({"orders": {0: 23, 1: -2}})
    assert read_options({**SOMEWHERE, **offsets, **times}, is_streaming=True).starting == AtTimes({"orders": {0: 1000}})
    every = {**SOMEWHERE, **offsets, **times, "startingTimestamp": "5"}
    assert read_options(every, is_streaming=True).starting == AtTime(5)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"subscribe": "a", "subscribePattern": "b"}, "exactly one of"),
        ({"subscribe": " "}, "subscribe is empty"),
        ({"subscribe": "a", "startingOfsets": "earliest"}, "is 'startingOffsets' meant"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "nothing to read"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "nothing to read"),
        ({"subscribe": "a", "startingOffsets": "{"}, "must look like"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": 1.5}}'}, "must look like"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "no offset"),
        ({"subscribe": "a", "endingOffsets": '{"a": {"0": -2}}'}, "no offset"),
        ({"subscribe": "a", "minPartitions": "0"}, "at least 1"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "many"}, "must be a number"),
        ({"subscribe": "a", "failOnDataLoss": "yes"}, "true, false"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": '{"a": ["0"]}'}, "must look like"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "host"}, "no host:port"),
        ({"subscribe": "a", "kafka.isolation.level": "some"}, "read_committed"),
        ({"subscribe": "a", "kafka.ssl.keystor.location": "x"}, "is ssl.keystore.location meant"),
        (
            {"subscribe": "a", "kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS"}
            | {"kafka.ssl.truststore.location": "x.jks"},
            "kafka.ssl.truststore.type is JKS, and only PEM can be read",
        ),
        ({"subscribe": "a", "kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is GSSAPI"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_name_of_the_option(said: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match="(?s)" + words.replace("(", r"\(")):
        read_options({"kafka.bootstrap.servers": "h:1", **said}, is_streaming=False)


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("90s", 90), ("90", 90), ("500ms", 0.5), (" 1 H ", 3600)])
def test_a_delay_is_said_as_spark_says_it(text: str, seconds: float) -> None:
    options = read_options({**SOMEWHERE, "minOffsetsPerTrigger": "7", "maxTriggerDelay": text}, is_streaming=True)

    assert (options.min_offsets_per_trigger, options.max_trigger_delay_s) == (7, seconds)


@pytest.mark.parametrize(
    ("said", "is_streaming", "words"),
    [
        ({"maxTriggerDelay": "soon"}, True, "maxTriggerDelay is 'soon'; it must be a time"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True, r"minOffsetsPerTrigger \(9\) is more than"),
        ({"minOffsetsPerTrigger": "9"}, False, "no meaning for a batch"),
    ],
)
def test_triggers_that_cannot_be_meant_are_refused(said: dict[str, str], is_streaming: bool, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        read_options({**SOMEWHERE, **said}, is_streaming=is_streaming)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadOption, match="it has no end"):
        read_options({**SOMEWHERE, "endingOffsets": "latest"}, is_streaming=True)


def test_tuning_of_kafkas_consumer_is_passed_over() -> None:
    read_options({**SOMEWHERE, "kafka.fetch.min.bytes": "1", "groupIdPrefix": "x"}, is_streaming=False)


def test_name_and_password_come_by_themselves_or_in_the_words_of_java() -> None:
    """Name and password come by themselves or in the words of java and are not shown."""
    sasl = {**SOMEWHERE, "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s3cret";'

    plain = read_options({**sasl, "kafka.sasl.username": "ann", "kafka.sasl.password": "s3cret"}, is_streaming=False)
    in_java = read_options({**sasl, "kafka.sasl.jaas.config": jaas}, is_streaming=False)

    assert plain.client == in_java.client
    assert (plain.client.security.username, plain.client.security.password) == ("ann", "s3cret")
    assert "s3cret" not in repr(plain)
    with pytest.raises(BadOption, match="PLAIN needs a name and a password"):
        read_options(sasl, is_streaming=False)


def test_a_sink_has_a_topic_and_a_codec() -> None:
    server = {"kafka.bootstrap.servers": "h:1"}

    options = write_options({**server, "topic": "t", "kafka.compression.type": "zstd"})

    assert options.topic == "t"
    assert COMPRESSION_NAMES[options.compression] == "zstd"
    with pytest.raises(BadOption, match="it may be none, gzip"):
        write_options({**server, "kafka.compression.type": "brotli"})
