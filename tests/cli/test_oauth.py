"""The commands, and the pipeline's own client, with a token instead of a password (OAUTHBEARER)."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.client.connection import ConnectionFailed
from chronik.pipeline.topics.client import TopicClient
from chronik.pipeline.topics.options import cluster_options
from chronik.testing import node
from tests.cli.conftest import Secured
from tests.clients.support import needs

needs("joserfc")
from tests.tokens import Issuer  # noqa: E402


def test_a_token_in_a_file_lets_commands_and_the_pipeline_in(tmp_path: Path) -> None:
    """A token in a file lets commands and the pipeline in; one for another audience does not, and is not repeated."""
    issuer = Issuer(tmp_path)
    (tmp_path / "good").write_text(issuer.token())
    (tmp_path / "wrong").write_text(issuer.token(aud="another"))
    told = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    for name in ("good", "wrong"):
        told["sasl.oauthbearer.token.endpoint.url"] = f"file://{tmp_path / name}"
        (tmp_path / f"{name}.properties").write_text("".join(f"{key}={value}\n" for key, value in told.items()))

    with node(issuer.settings) as running:
        alice = Secured(running.bootstrap, str(tmp_path / "good.properties"))
        alice.ok("topic", "create", "orders")
        alice.ok("produce", "orders", stdin="one\n")
        assert alice.ok("where", "orders", "0", "0", "--json").json["place"] == "here"
        words = Secured(running.bootstrap, str(tmp_path / "wrong.properties")).refused("topic", "list")
        assert "does not let the token in" in words
        assert (tmp_path / "wrong").read_text() not in words

        said = {f"kafka.{key}": value for key, value in told.items()} | {"kafka.bootstrap.servers": running.bootstrap}
        said["kafka.sasl.oauthbearer.token.endpoint.url"] = f"file://{tmp_path / 'good'}"
        with TopicClient(cluster_options(said)) as client:
            assert "orders" in client.topics(None)
            assert client.missing(["none"]).args[0] == "there is no topic 'none'"


def test_the_pipelines_own_client_is_let_in_by_scram(admin: Secured) -> None:
    told = dict(line.split("=", 1) for line in Path(admin.command_config).read_text().splitlines())
    said = {f"kafka.{key}": value for key, value in told.items()} | {"kafka.bootstrap.servers": admin.bootstrap}
    with TopicClient(cluster_options(said)) as client:
        assert client.nodes()
    wrong = said | {"kafka.sasl.username": "admin", "kafka.sasl.password": "wr0ng", "kafka.request.timeout.ms": "20000"}
    host, _, port = admin.bootstrap.rpartition(":")
    with TopicClient(cluster_options(wrong)) as client, pytest.raises(ConnectionFailed, match="does not let admin in"):
        client.ask_at((host, int(port)), 18, {})
