"""What encryption and logins cost: throughput, new connections a second, and the answer of an authorizer."""

from __future__ import annotations

import time
from functools import partial

from chronik.core.access.acls import Acl, AclPatternType, AclPermission, AclSet
from chronik.core.access.authorizer import ANSWERS_MAX, Authorizer
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.local_cluster.authority import CertificateAuthority, write_secret
from tests.bench.row import Bench, Case, Figure, Figures, Lines, Row, at_least, at_most, one_line
from tests.bench.rows.warm_up import warm_up
from tests.bench.systems.system import MORE_LISTENERS, bootstrap, free_ports

TOPIC = "secured"
VALUE_BYTES = 1_000
CPU_TICK_S = 0.01
HANDSHAKE_SHARE = 60  # of one-record requests: each is a connection, a key exchange and a login
ACLS = 10_000
CHECKS = 100_000
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "bench-secret"}


def secured(bench: Bench, protocol: str) -> Lines:
    """By a listener of its own beside the plain one, which is for what is not measured."""
    authority = CertificateAuthority.new("bench")
    bench.directory.mkdir(parents=True, exist_ok=True)
    trusted, store = bench.directory / "ca.pem", bench.directory / "node.pem"
    write_secret(trusted, authority.certificate_pem())
    write_secret(store, authority.key_store("node"))
    (port,) = free_ports(1)
    settings = {
        MORE_LISTENERS: f",MEASURED://127.0.0.1:{port}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,MEASURED:{protocol}",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.measured.plain.sasl.jaas.config": f'{MODULE} user_alice="bench-secret";',
        "durability": "os",
    }
    as_client = {"security.protocol": protocol, "ssl.ca.location": str(trusted)}
    as_client |= LOGIN if protocol.startswith("SASL") else {}
    messages = min(bench.scale.stream_bytes // VALUE_BYTES, bench.scale.stream_messages_max)
    lines: dict[str, dict[str, float]] = {}
    with bench.server(**settings) as server:
        warm_up(bench, bootstrap(server), [server.pid])
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 1})
        for job in ("produce", "consume"):
            measured = bench.client.ask(
                job,
                bootstrap=f"127.0.0.1:{port}",
                node_pids=[server.pid],
                topic=TOPIC,
                messages=messages,
                value_bytes=VALUE_BYTES,
                security=as_client,
            )
            node_cpu_s = max(measured["node_cpu_s"], CPU_TICK_S)
            lines[f"{job}, {protocol}"] = {
                "per_s": measured["messages_s"],
                "node_us": 1e6 * node_cpu_s / messages,
            }
        count = max(bench.scale.requests // HANDSHAKE_SHARE, 10)
        measured = bench.client.ask("handshakes", port=port, node_pid=server.pid, count=count, security=as_client)
        lines[f"connections, {protocol}"] = {
            "per_s": measured["handshakes_s"],
            "node_us": 1e6 * max(measured["node_cpu_s"], CPU_TICK_S) / count,
        }
    return lines


def checks(bench: Bench, is_new: bool) -> Figures:
    """Answers of the authorizer with 10,000 ACLs: to questions that are asked again, or never were."""
    acls = AclSet()
    for number in range(ACLS):
        pattern = AclPatternType.PREFIXED if number % 10 == 0 else AclPatternType.LITERAL
        rule = Acl(
            AclResourceType.TOPIC,
            f"topic-{number:05}",
            pattern,
            f"User:user-{number % 100}",
            "*",
            AclOperation.WRITE,
            AclPermission.ALLOW,
        )
        acls.add(number.to_bytes(16, "big"), rule)
    authorizer = Authorizer(lambda: acls)
    count = min(CHECKS, bench.scale.requests)
    names = [f"topic-{number % (ACLS if is_new else 100):05}" for number in range(min(count, ANSWERS_MAX - 1))]
    users = [KafkaPrincipal(USER_TYPE, f"user-{number % 100}") for number in range(100)]
    started = time.perf_counter()
    for number, name in enumerate(names):
        authorizer.is_allowed(users[number % 100], "127.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC, name)
    seconds = time.perf_counter() - started
    return {"per_s": len(names) / seconds, "node_us": 1e6 * seconds / len(names)}


ROW = Row(
    "secured",
    "Produce and consume with librdkafka, 1 KB, acks=1, and new connections, over TLS; checks of 10,000 ACLs",
    (
        Figure("per_s", "a second", ratio_goal=at_least(1.0)),
        Figure("node_us", "node CPU µs each", digits=1, goal=None, moonshot=at_most(1.0)),
    ),
    (
        Case("SSL", partial(secured, protocol="SSL")),
        Case("SASL_SSL", partial(secured, protocol="SASL_SSL")),
        one_line("authorizer, asked before", partial(checks, is_new=False), is_ours_only=True),
        one_line("authorizer, never asked", partial(checks, is_new=True), is_ours_only=True),
    ),
    code="B18",
)
