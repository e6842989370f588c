"""A cluster with ACLs: what a user of a real client may do, and what it does not even see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.clients.support import wait_until
from tests.cluster.test_sasl import SETTINGS, SaslCluster, login, produced

AUDIT = "__chronik_audit"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS_WITH_ACLS = {
    **SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin;User:ANONYMOUS",
    "chronik.audit.store": "true",
    "sasl.jaas.config": f'{MODULE} username="node" password="node-secret" user_node="node-secret"'
    ' user_admin="admin-secret" user_alice="hers" user_eve="evil";',
}
ADMIN, ALICE, EVE = login("admin", "admin-secret"), login("alice", "hers"), login("eve", "evil")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    made = SaslCluster(tmp_path_factory.mktemp("acls"), SETTINGS_WITH_ACLS)
    try:
        made.start()
        admin = AdminClient({"bootstrap.servers": made.bootstrap, **ADMIN})
        for future in admin.create_topics([NewTopic("t", 3, 3), NewTopic("secret", 1, 3)]).values():
            future.result(30)
        yield made
        made.stop()
    finally:
        made.kill_all()


def rule(operation: AclOperation, kind: ResourceType, name: str, user: str = "User:alice") -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, user, "*", operation, AclPermissionType.ALLOW)


def allowed(cluster: SaslCluster, *rules: AclBinding) -> AdminClient:
    """The administrator that made these rules."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **ADMIN})
    for future in admin.create_acls(list(rules)).values():
        future.result(30)
    return admin


def test_a_user_without_rules_sees_and_does_nothing(cluster: SaslCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **EVE})
    assert admin.list_topics(timeout=20).topics == {}
    for named in ("secret", "not-there"):  # one as the other: what exists is not told
        error = admin.list_topics(named, timeout=20).topics[named].error
        assert error is not None
        assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    assert "TOPIC_AUTHORIZATION_FAILED" in str(produced(cluster, EVE, "x", topic="secret"))
    (made,) = admin.create_acls([rule(AclOperation.READ, ResourceType.TOPIC, "secret", "User:eve")]).values()
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        made.result(20)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.create_topics([NewTopic("new", 1, 3)])["new"].result(20)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.delete_topics(["secret"])["secret"].result(20)


def any_rule() -> AclBindingFilter:
    open_: Any = None
    return AclBindingFilter(
        ResourceType.ANY, open_, ResourcePatternType.ANY, open_, open_, AclOperation.ANY, AclPermissionType.ANY
    )


def test_rules_let_a_user_write_and_read_what_they_name_on_every_node(cluster: SaslCluster) -> None:
    admin = allowed(
        cluster,
        rule(AclOperation.WRITE, ResourceType.TOPIC, "t"),
        rule(AclOperation.READ, ResourceType.TOPIC, "t"),
        rule(AclOperation.READ, ResourceType.GROUP, "g"),
    )
    assert len(admin.describe_acls(any_rule()).result(30)) == 3

    # A producer that knows one node reaches the leaders of all three partitions: what is sent on is alice's too.
    wait_until(lambda: produced(cluster, ALICE, "one") is None, "the rules are known on every node")
    assert produced(cluster, {**ALICE, "enable.idempotence": True}, "two") is None
    assert set(AdminClient({"bootstrap.servers": cluster.bootstrap, **ALICE}).list_topics(timeout=20).topics) == {"t"}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **ALICE}
    )
    consumer.subscribe(["t"])
    read: set[Any] = set()

    def both_are_read() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.add(message.value())
        return {b"one", b"two"} <= read

    wait_until(both_are_read, "alice reads what she wrote")
    consumer.close()
    assert "TOPIC_AUTHORIZATION_FAILED" in str(produced(cluster, ALICE, "three", topic="secret"))

    # And when a rule is gone, so is the right, though the connection stays
    for future in admin.delete_acls([any_rule()]).values():
        assert len(future.result(30)) == 3
    wait_until(lambda: produced(cluster, ALICE, "four") is not None, "alice may not write any longer")


def test_the_audit_trail_has_logins_refusals_and_changes_and_no_password(cluster: SaslCluster) -> None:
    assert "_AUTHENTICATION" in str(produced(cluster, login("alice", "not-hers"), "x"))
    assert "TOPIC_AUTHORIZATION_FAILED" in str(produced(cluster, EVE, "x", topic="secret"))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **ADMIN})
    admin.create_topics([NewTopic("audited", 1, 3)])["audited"].result(30)

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "auditors", "enable.auto.commit": False, **ADMIN}
    )
    wait_until(lambda: AUDIT in admin.list_topics(timeout=20).topics, "there is a topic for it")
    partitions: list[int] = []
    text: list[str] = []
    seen: set[tuple[str, str, str]] = set()

    def all_is_there() -> bool:
        now = sorted(admin.list_topics(AUDIT, timeout=20).topics[AUDIT].partitions)
        if now != partitions:  # a node that came later has a partition of its own later
            partitions[:] = now
            consumer.assign([confluent_kafka.TopicPartition(AUDIT, number, 0) for number in now])
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            text.append((message.value() or b"").decode())
            for event in map(json.loads, text[-1].splitlines()):
                seen.add((event["kind"], event.get("principal", ""), event.get("api", "")))
        return {
            ("login", "User:admin", ""),
            ("login_refused", "User:ANONYMOUS", ""),
            ("denied", "User:eve", "metadata"),  # its client asks for that first
            ("change", "User:admin", "create_topics"),
        } <= seen

    wait_until(all_is_there, lambda: f"all that happened is in the trail, and not only {sorted(seen)}")
    consumer.close()
    for secret in ("not-hers", "admin-secret", "node-secret", "evil"):
        assert secret not in "".join(text)
