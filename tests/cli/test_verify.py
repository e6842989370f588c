"""`chronik verify` as a user meets it: against one real node, or Apache Kafka with CHRONIK_TEST_PEER=kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chronik.testing import node
from chronik.verify.history import RunHistory
from chronik.verify.settings import VerifySettings
from tests.cli.conftest import Chronik, interrupt

KEYS = ["produced", "acknowledged", "consumed", "lost", "duplicated", "reordered", "gaps", "stalls", "partitions"]
KEYS += ["verdict", "cause", "seconds"]


@pytest.fixture
def history(tmp_path: Path) -> str:
    return str(tmp_path / "runs.sqlite3")


def test_all_that_was_sent_arrives_and_the_exit_code_is_0(chronik: Chronik, history: str) -> None:
    told = chronik.ok("verify", "--json", "--history", history).json

    assert [key for key in KEYS if key not in told] == []
    assert (told["verdict"], told["cause"]) == ("pass", None)
    assert (told["produced"], told["acknowledged"], told["consumed"], told["lost"]) == (5000, 5000, 5000, 0)
    assert (told["duplicated"], told["reordered"], told["gaps"], told["stalls"]) == (0, 0, 0, [])
    assert [part["consumed"] for part in told["partitions"]] == [1667, 1667, 1666]
    assert told["topic"] not in chronik.ok("topic", "list").out


def test_the_report_is_for_people(chronik: Chronik, history: str) -> None:
    text = chronik.ok("verify", "--messages", "300", "--partitions", "2", "--history", history).out

    assert "✔ PASS" in text
    assert "300 of 300 messages consumed, each once and in order" in text
    assert "0 to 149" in text


def test_too_little_time_is_partial_and_the_clients_limit_and_the_exit_code_is_1(
    chronik: Chronik, history: str
) -> None:
    ended = chronik.run("verify", "--timeout", "0.001", "--json", "--history", history)

    assert ended.code == 1, ended
    told = ended.json
    assert (told["verdict"], told["cause"]) == ("partial", "client limit or timeout")
    assert told["lost"] == 0
    assert sum(each["count"] for each in told["fates"]) == told["missing"] == 5000 - told["consumed"]
    assert told["evidence"]
    assert told["topic_kept"]
    chronik.ok("topic", "delete", told["topic"], "--yes")


def test_a_run_that_was_stopped_is_nothing_to_compare_with(chronik: Chronik, history: str) -> None:
    kept = RunHistory(Path(history))
    stopped = kept.begin("2026-11-16T04:25:00+00:00", VerifySettings("127.0.0.1:9092"))
    kept.close()

    ended = chronik.run("verify", "--compare", str(stopped), "--history", history)

    assert ended.code == 2, ended
    assert f"run {stopped} was stopped before it was finished" in ended.err


def test_runs_are_kept_listed_shown_again_and_compared(chronik: Chronik, history: str) -> None:
    chronik.ok("verify", "--messages", "100", "--note", "as it was", "--history", history)
    second = chronik.ok("verify", "--messages", "200", "--compare", "1", "--json", "--history", history).json

    assert second["compared_with"] == 1
    assert second["changes"]["messages"] == [100, 200]
    assert second["changes"]["consumed"] == [100, 200]
    listed = chronik.ok("verify", "history", "--history", history).out
    assert "as it was" in listed
    assert listed.count("✔ pass") == 2
    assert [run["run"] for run in chronik.ok("verify", "history", "--json", "--history", history).json] == [1, 2]
    assert "200 of 200 messages" in chronik.ok("verify", "history", "2", "--history", history).out
    text = chronik.ok("verify", "--messages", "200", "--compare", "last", "--history", history).out
    assert "run 2" in text


def test_a_topic_with_messages_of_others_is_used_and_stays(chronik: Chronik, name: str, history: str) -> None:
    chronik.ok("topic", "create", name, "--partitions", "2")
    chronik.ok("produce", name, stdin="not ours\n" * 50)

    for options in ((), ("--assign",)):
        told = chronik.ok("verify", "--topic", name, "--messages", "100", "--json", "--history", history, *options).json
        assert (told["verdict"], told["consumed"], told["foreign"], told["gaps"]) == ("pass", 100, 0, 0)
        assert len(told["partitions"]) == 2
    assert not is_traced_by_a_setting_of_its_own(chronik, name)


def test_the_clients_own_partitioner_may_choose(chronik: Chronik, history: str) -> None:
    told = chronik.ok("verify", "--spread", "client", "--messages", "500", "--json", "--history", history).json

    assert (told["verdict"], told["consumed"]) == ("pass", 500)


def test_a_topic_that_is_to_be_kept_is_kept(chronik: Chronik, history: str) -> None:
    told = chronik.ok("verify", "--keep", "--messages", "10", "--json", "--history", history).json

    assert told["topic_kept"]
    assert "verify" in chronik.ok("consume", told["topic"], "--from-beginning", "--max-messages", "1").out
    chronik.ok("topic", "delete", told["topic"], "--yes")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--bootstrap", "127.0.0.1:1"), "no Kafka node answers"),
        (("--bootstrap", "nonsense:port"), "is not an address"),
        (("--idempotent", "--acks", "1"), "needs acks=all"),
        (("--group", "g", "--assign"), "contradict"),
        (("--replication", "7"), "7 replicas"),
        (("--compare", "99"), "there is no run 99"),
        (("--compare", "last"), "no run yet"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    chronik: Chronik, history: str, options: tuple[str, ...], words: str
) -> None:
    assert words in chronik.refused("verify", "--history", history, *options)


def test_a_history_that_is_none_is_refused(chronik: Chronik, tmp_path: Path) -> None:
    wrong = tmp_path / "list.txt"
    wrong.write_text("milk, bread, butter" * 20)

    assert "cannot be used" in chronik.refused("verify", "--history", str(wrong))


def test_a_client_that_is_not_installed_is_refused_with_the_way_to_get_it(
    chronik: Chronik, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aiokafka.py").write_text("raise ModuleNotFoundError(\"No module named 'aiokafka'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    ended = chronik.run_process("verify", "--client", "aiokafka", "--history", str(tmp_path / "runs.sqlite3"))

    assert (ended.code, ended.out) == (2, "")
    said = "the client aiokafka cannot be used: No module named 'aiokafka'; pip install 'chronik[clients]'"
    assert " ".join(ended.err.split()) == f"error: {said}"


def test_an_unknown_client_is_refused_with_those_there_are(chronik: Chronik) -> None:
    ended = chronik.run("verify", "--client", "sarama")

    assert ended.code == 2
    assert "kafka-python" in ended.err


def test_no_runs_yet_is_said_so(chronik: Chronik, history: str) -> None:
    assert "no runs yet" in chronik.ok("verify", "history", "--history", history).out


def test_ctrl_c_ends_it_at_once_and_leaves_no_topic(chronik: Chronik, history: str) -> None:
    before = chronik.ok("topic", "list").out
    with chronik.running("verify", "--messages", "5000000", "--history", history) as process:
        wait_for_a_run(chronik, history)
        code, _, err = interrupt(process)

    assert code == 130
    assert "Traceback" not in err
    assert chronik.ok("topic", "list").out == before
    assert "stopped" in chronik.ok("verify", "history", "--history", history).out


def test_ctrl_c_leaves_a_topic_of_the_users_own_alone(chronik: Chronik, name: str, history: str) -> None:
    chronik.ok("topic", "create", name)
    with chronik.running("verify", "--topic", name, "--messages", "5000000", "--history", history) as process:
        wait_for_a_run(chronik, history)
        code, _, err = interrupt(process)

    assert code == 130, err
    assert not is_traced_by_a_setting_of_its_own(chronik, name)


@pytest.mark.skipif(os.environ.get("CHRONIK_TEST_PEER") == "kafka", reason="only chronik has a trace to switch off")
def test_ctrl_c_is_ctrl_c_though_its_topic_was_deleted(name: str, history: str) -> None:
    """Ctrl c is ctrl c though the topic was deleted under it and its trace cannot be switched off."""
    with node({"auto.create.topics.enable": "false"}) as strict:
        chronik = Chronik(strict.bootstrap)
        chronik.ok("topic", "create", name)
        options = ("--topic", name, "--client", "confluent", "--messages", "5000000", "--history", history)
        with chronik.running("verify", *options) as process:
            while not is_traced_by_a_setting_of_its_own(chronik, name):
                pass
            chronik.ok("topic", "delete", name, "--yes")
            code, _, err = interrupt(process)

    assert code == 130, err
    assert f"cannot switch the trace of topic {name} off again" in err


def is_traced_by_a_setting_of_its_own(chronik: Chronik, topic: str) -> bool:
    """Other tests may have switched the trace of the whole node, which is shown as well."""
    settings = chronik.ok("topic", "describe", topic, "--json").json["config"]
    return "chronik.trace" in settings and settings["chronik.trace"]["set_by"] == "topic"


def wait_for_a_run(chronik: Chronik, history: str) -> None:
    while not chronik.ok("verify", "history", "--json", "--history", history).json:
        pass


@pytest.mark.parametrize("client", ["kafka-python", "confluent", "aiokafka"])
def test_what_is_copied_in_transactions_equals_its_input(chronik: Chronik, client: str) -> None:
    sizes = ("--messages", "120", "--partitions", "2", "--transaction-size", "10", "--max-poll-records", "25")
    told = chronik.ok("verify", "--copy", "--abort-rate", "0.3", "--client", client, *sizes, "--json").json

    assert (told["mode"], told["verdict"], told["evidence"]) == ("copy", "pass", [])
    assert told["committed"] + told["aborted"] == told["transactions"] == 12
    assert told["read"] == 10 * told["committed"]
    assert told["copies"]["committed"] > 0
    assert not set(told["topics"]) & set(chronik.ok("topic", "list").out.split())


def test_what_is_committed_is_read_and_nothing_else(chronik: Chronik) -> None:
    text = chronik.ok(
        "verify", "--transactional", "--messages", "60", "--abort-rate", "0.5", "--client", "confluent"
    ).out

    assert text.startswith("PASS  ")
    assert "all that was committed was read, and nothing else" in text
    words = chronik.refused("verify", "--transactional", "--topic", "orders")
    assert "makes its own topics" in words
