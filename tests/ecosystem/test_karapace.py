"""Karapace, a schema registry: it keeps schemas in a compacted topic, and its group elects the one that writes.

There is no package of it to install here: CHRONIK_KARAPACE names a Python that has it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chronik.shell.ports import free_ports
from chronik.testing import cluster
from tests.cluster.support import check_logs
from tests.ecosystem.brokers import Brokers
from tests.ecosystem.programs import PROGRAM_SECONDS, Program, karapace_python, needs
from tests.ecosystem.rest import Answer, ask

needs("karapace")

TOPIC = "_schemas"
FIELD = {"name": "id", "type": "long"}
OPTIONAL_FIELD = {"name": "note", "type": "string", "default": ""}
REQUIRED_FIELD = {"name": "amount", "type": "long"}


def avro(*fields: dict[str, str]) -> dict[str, str]:
    """The body that registers a record of these fields."""
    return {"schema": json.dumps({"type": "record", "name": "Order", "fields": list(fields)})}


class Registry:
    """One Karapace of a group of them."""

    def __init__(self, name: str, bootstrap: str, folder: Path) -> None:
        [port] = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        settings = {
            "bootstrap_uri": bootstrap,
            "host": "127.0.0.1",
            "port": str(port),
            "advertised_hostname": "127.0.0.1",
            "advertised_port": str(port),
            "client_id": name,
            "group_id": "schema-registry",
            "topic_name": TOPIC,
            "replication_factor": "3",
            "karapace_registry": "true",
            "log_level": "INFO",
            # On a busy machine a member is not taken for dead.
            "session_timeout_ms": "60000",
        }
        env = {f"KARAPACE_{key.upper()}": value for key, value in settings.items()}
        self.program = Program(name, [karapace_python(), "-m", "karapace"], folder, env)

    def ask(self, path: str, body: object = None, method: str | None = None) -> Answer:
        return ask(self._url + path, body, method)

    def must(self, path: str, body: object = None, method: str | None = None) -> object:
        """The answer, as soon as there is one: while no node leads the group, or it has not read all, it is a 5xx."""
        answers: list[Answer] = []

        def is_answered() -> bool:
            answers.append(self.ask(path, body, method))
            return answers[-1].status not in (0, 500, 503)

        self.program.wait_until(is_answered, lambda: f"{path} is answered: {answers[-1]}")
        assert answers[-1].status == 200, answers[-1]
        return answers[-1].body

    def wait_until_known(self, path: str, expected: object) -> None:
        """Until it has read from the topic what another has written."""
        self.program.wait_until(lambda: self.ask(path).body == expected, lambda: f"{path}: {self.ask(path)}")


@pytest.mark.timeout(6 * PROGRAM_SECONDS)
def test_schemas_are_registered_checked_and_kept_over_a_restart(tmp_path: Path) -> None:
    with cluster(nodes=3) as nodes:
        first, second = (Registry(name, nodes.bootstrap, tmp_path) for name in ("karapace-1", "karapace-2"))
        with first.program, second.program:
            first_id = first.must("/subjects/orders/versions", avro(FIELD))
            second.wait_until_known("/subjects", ["orders"])
            # Only one of the two writes; the other sends the request on to it.
            second_id = second.must("/subjects/orders/versions", avro(FIELD, OPTIONAL_FIELD))
            assert second_id != first_id
            first.wait_until_known("/subjects/orders/versions", [1, 2])
            assert first.must("/subjects/orders/versions", avro(FIELD)) == first_id, "the same schema is the same id"

            refused = first.ask("/subjects/orders/versions", avro(FIELD, OPTIONAL_FIELD, REQUIRED_FIELD))
            assert refused.status == 409, "a required field breaks backward compatibility"
            check = "/compatibility/subjects/orders/versions/latest"
            assert first.must(check, avro(FIELD, OPTIONAL_FIELD)) == {"is_compatible": True}
            assert first.must("/config/orders", {"compatibility": "NONE"}, "PUT") == {"compatibility": "NONE"}
            first.must("/subjects/orders/versions", avro(FIELD, REQUIRED_FIELD))

            before = {path: first.must(path) for path in ("/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/3")}
            assert len({str(schema) for schema in before.values()}) == 3

            first.program.stop()
            second.program.stop()
            for registry in (first, second):
                registry.program.start()
            for registry in (first, second):
                registry.must("/subjects")
                registry.wait_until_known("/subjects/orders/versions", [1, 2, 3])
                assert {path: registry.must(path) for path in before} == before
                registry.wait_until_known("/config/orders", {"compatibilityLevel": "NONE"})
            assert "Traceback" not in first.program.log() + second.program.log()

        assert Brokers(nodes.bootstrap, replicas=3).settings(TOPIC)["cleanup.policy"] == "compact"
        check_logs(nodes)
