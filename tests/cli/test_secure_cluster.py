"""`chronik cluster start --secure`: certificates, an administrator, and every command of the family on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.local_cluster.making import ClusterPlan, make
from tests.cli.clusters import Local
from tests.cli.conftest import Secured


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    made = Local(tmp_path / "cluster")
    yield made
    made.kill_all()


def test_a_secured_cluster_starts_grows_and_comes_back(local: Local) -> None:
    told = local.started("--secure", nodes=2)
    config = told["command_config"]
    admin = Secured(told["bootstrap"], config)
    admin.ok("topic", "create", "t", "--replication", "2")
    admin.ok("produce", "t", "--acks", "all", stdin="one\n")

    assert local.ok("add", "--observer", "--json").json["added"] == 3
    assert local.ok("restart", "1", "--json").json["ready"]
    status = local.status()

    assert (status["ready"], status["command_config"]) == (True, config)
    assert [row["in_cluster"] for row in status["nodes"]] == [True, True, True]
    assert admin.ok("consume", "t", "--from-beginning", "--max-messages", "1").out == "one\n"
    folder = Path(config).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    password = (folder / "admin.password").read_bytes().strip()
    for pid in local.alive().values():
        assert password not in Path(f"/proc/{pid}/cmdline").read_bytes()
    local.ok("stop")
    assert "is not running" in local.refused("stop")


def test_a_plain_cluster_is_not_made_a_secured_one(local: Local) -> None:
    make(str(local.path), ClusterPlan(1, 0, {}, None))
    assert "is not a secured one" in local.refused("start", "--secure", "--detach")
