"""Altering settings."""

from __future__ import annotations

import pytest

from chronik.core.config.definitions import LONG_MAX, Source
from chronik.core.config.describe import describe_cluster_wide, describe_node
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import (
    DONE,
    AlterConfigs,
    ChangeOutcome,
    ConfigChange,
    ConfigOperation,
    CreateTopics,
    NewTopic,
    ResourceType,
)
from chronik.core.machines.metadata.configs import GROUPS_WITH_SETTINGS_MAX
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import NO_LEADER, ConfigRecord
from chronik.core.machines.metadata.snapshots import records_of
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import NOW_MS, batch_of, contents, open_log, put
from tests.unit.core.log.test_compaction import COMPACT, compact
from tests.unit.core.machines.metadata.cluster import Cluster, led
from tests.unit.core.machines.metadata.machine_asked import Asked, content, topic_id

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
UNCLEAN = "unclean.leader.election.enable"


def with_topic(settings: dict[str, str] | None = None) -> Asked:
    asked = Asked(settings, brokers=(1, 2))
    asked.ask(CreateTopics((NewTopic("t", topic_id(1)),)))
    return asked


def alter(
    asked: Asked,
    *operations: tuple[str, int, str | None],
    of: tuple[int, str] = (TOPIC, "t"),
    replace_all: bool = False,
    validate_only: bool = False,
) -> ChangeOutcome:
    [outcome] = asked.ask(AlterConfigs((ConfigChange(*of, operations),), replace_all, validate_only))
    assert isinstance(outcome, ChangeOutcome)
    return outcome


def test_a_setting_is_set_and_taken_back() -> None:
    asked = with_topic()

    assert alter(asked, ("retention.ms", SET, "5")).code is Code.NONE
    assert asked.image.topic_config("t").retention_ms == 5
    alter(asked, ("retention.ms", DELETE, None))
    assert asked.image.topic_config("t").retention_ms == 7 * 24 * 3600 * 1000
    assert asked.image.topic_overrides("t") == {}


def test_lists_can_be_added_to_and_taken_from() -> None:
    asked = with_topic()

    alter(asked, ("cleanup.policy", APPEND, "compact"))
    assert asked.image.topic_config("t").cleanup_policy == ("delete", "compact")
    alter(asked, ("cleanup.policy", APPEND, "compact"))
    assert asked.image.topic_config("t").cleanup_policy == ("delete", "compact")
    alter(asked, ("cleanup.policy", SUBTRACT, "delete"))
    assert asked.image.topic_config("t").cleanup_policy == ("compact",)


def test_the_old_way_takes_back_what_is_not_named() -> None:
    asked = with_topic()
    alter(asked, ("retention.ms", SET, "5"), ("segment.bytes", SET, "1000"))

    alter(asked, ("segment.bytes", SET, "2000"), replace_all=True)

    assert asked.image.topic_overrides("t") == {"segment.bytes": "2000"}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (("no.such.key", SET, "1"), Code.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), Code.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), Code.INVALID_CONFIG),
        (("no.such.key", SUBTRACT, "1"), Code.INVALID_CONFIG),
        (("cleanup.policy", APPEND, "shrink"), Code.INVALID_CONFIG),
        (("remote.storage.enable", SET, "true"), Code.INVALID_CONFIG),
        (("retention.ms", SET, None), Code.INVALID_REQUEST),
        (("cleanup.policy", APPEND, None), Code.INVALID_REQUEST),
        (("retention.ms", 7, "1"), Code.INVALID_REQUEST),
    ],
)
def test_a_bad_change_is_refused_and_its_neighbours_with_it(operation: tuple[str, int, str | None], code: Code) -> None:
    asked = with_topic()

    outcome = alter(asked, ("segment.bytes", SET, "1000"), operation)

    assert outcome.code is code
    assert outcome.message
    assert asked.image.topic_overrides("t") == {}


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    assert "did you mean retention.ms?" in (alter(with_topic(), ("retention.msec", SET, "1")).message or "")


def test_one_key_twice_is_refused() -> None:
    assert alter(with_topic(), ("retention.ms", SET, "1"), ("retention.ms", SET, "2")).code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ((TOPIC, "nope"), Code.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "no pe"), Code.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "9"), Code.BROKER_ID_NOT_REGISTERED),
        ((BROKER, "one"), Code.INVALID_REQUEST),
        ((8, "1"), Code.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_is_refused(resource: tuple[int, str], code: Code) -> None:
    assert alter(with_topic(), of=resource).code is code


def test_one_bad_resource_does_not_hold_back_another_but_twice_the_same_is_refused() -> None:
    asked = with_topic()
    asked.ask(CreateTopics((NewTopic("u", topic_id(2)),)))
    bad = ConfigChange(TOPIC, "nope", (("retention.ms", SET, "5"),))
    good = ConfigChange(TOPIC, "u", (("retention.ms", SET, "5"),))
    double = ConfigChange(TOPIC, "t", (("retention.ms", SET, "5"),))

    outcomes = asked.ask(AlterConfigs((bad, good, double, double)))

    assert [outcome.code for outcome in outcomes] == [
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NONE,
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
    ]
    assert asked.image.topic_config("u").retention_ms == 5
    assert asked.image.topic_overrides("t") == {}


def test_a_change_can_be_tried_without_doing_it() -> None:
    asked = with_topic()

    assert alter(asked, ("retention.ms", SET, "5"), validate_only=True).code is Code.NONE
    assert alter(asked, ("retention.ms", SET, "x"), validate_only=True).code is Code.INVALID_CONFIG
    assert asked.image.topic_overrides("t") == {}


def test_setting_what_is_set_already_writes_nothing() -> None:
    asked = with_topic()
    alter(asked, ("retention.ms", SET, "5"))
    before = len(asked.log)

    alter(asked, ("retention.ms", SET, "5"))

    assert len(asked.log) == before


def test_what_is_altered_for_all_brokers_changes_the_defaults_of_topics() -> None:
    asked = with_topic({"log.segment.bytes": "1000"})
    assert asked.image.topic_config("t").segment_bytes == 1000

    alter(asked, ("log.segment.bytes", SET, "2000"), of=(BROKER, ""))
    assert asked.image.topic_config("t").segment_bytes == 2000
    alter(asked, ("log.segment.bytes", SET, "3000"), of=(BROKER, "1"))
    assert asked.image.topic_config("t").segment_bytes == 3000
    alter(asked, ("log.segment.bytes", SET, "4000"), of=(BROKER, "2"))
    assert asked.image.topic_config("t").segment_bytes == 3000  # that is another node's
    alter(asked, ("log.segment.bytes", DELETE, None), of=(BROKER, "1"))
    alter(asked, ("log.segment.bytes", DELETE, None), of=(BROKER, ""))
    assert asked.image.topic_config("t").segment_bytes == 1000


def test_a_topic_with_settings_of_its_own_sees_new_defaults_for_the_others() -> None:
    asked = with_topic()
    alter(asked, ("retention.ms", SET, "5"))
    assert asked.image.topic_config("t").max_message_bytes == 1_048_588

    alter(asked, ("message.max.bytes", SET, "77"), of=(BROKER, ""))

    assert (asked.image.topic_config("t").retention_ms, asked.image.topic_config("t").max_message_bytes) == (5, 77)


def test_appending_to_a_brokers_list_begins_with_the_value_in_force() -> None:
    asked = with_topic()

    alter(asked, ("log.cleanup.policy", APPEND, "compact"), of=(BROKER, ""))

    assert asked.image.node_config.log.log_cleanup_policy == ("delete", "compact")


@pytest.mark.parametrize(
    "operation", [("num.partitions", SET, "3"), ("no.such", SET, "3"), ("log.segment.bytes", SET, "few")]
)
def test_a_broker_setting_that_cannot_be_altered_is_refused_as_in_kafka(operation: tuple[str, int, str | None]) -> None:
    assert alter(with_topic(), operation, of=(BROKER, "1")).code is Code.INVALID_REQUEST


@pytest.mark.parametrize("broker", ["1", ""])
def test_throttles_of_a_move_are_set_for_one_broker_or_all_and_taken_back(broker: str) -> None:
    asked = with_topic()
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

    assert alter(asked, *((rate, SET, "5") for rate in rates), of=(BROKER, broker)).code is Code.NONE
    config = asked.image.node_config
    assert (
        config.replication.leader_replication_throttled_rate,
        config.replication.follower_replication_throttled_rate,
    ) == (5, 5)

    assert alter(asked, *((rate, DELETE, None) for rate in rates), of=(BROKER, broker)).code is Code.NONE
    assert asked.image.node_config.replication.leader_replication_throttled_rate == LONG_MAX
    assert set(rates).isdisjoint(asked.image.broker_overrides(broker))


def test_throttles_that_were_never_set_can_be_taken_back() -> None:
    # Kafka's tool does so whenever a move is over, and calls it a failure if it cannot.
    names = ("leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second")

    assert alter(with_topic(), *((name, DELETE, None) for name in names), of=(BROKER, "1")).code is Code.NONE


def test_a_rate_below_nothing_is_refused() -> None:
    asked = with_topic()

    assert alter(asked, ("leader.replication.throttled.rate", SET, "-1"), of=(BROKER, "1")).code is Code.INVALID_REQUEST


def test_throttled_replicas_are_added_to_and_taken_off_a_topics_list() -> None:
    asked, name = with_topic(), "follower.replication.throttled.replicas"

    alter(asked, (name, SET, "0:1,1:2"))
    alter(asked, (name, APPEND, "0:2"))
    alter(asked, (name, SUBTRACT, "1:2"))

    assert asked.image.topic_config("t").follower_replication_throttled_replicas == ("0:1", "0:2")


def test_a_topic_that_was_compacted_is_known_to_have_gaps_whatever_it_becomes() -> None:
    asked = with_topic()
    alter(asked, ("cleanup.policy", SET, "compact"))
    assert asked.image.topic_overrides("t") == {"cleanup.policy": "compact"}

    alter(asked, ("cleanup.policy", SET, "delete"))
    assert asked.image.topic_config("t").may_have_gaps
    alter(asked, ("chronik.gaps", DELETE, None))
    assert asked.image.topic_config("t").may_have_gaps
    alter(asked, replace_all=True)
    assert asked.image.topic_overrides("t") == {"chronik.gaps": "true"}


def test_a_topic_that_never_was_compacted_has_no_gaps() -> None:
    asked = with_topic()

    alter(asked, ("cleanup.policy", SET, "delete"))

    assert not asked.image.topic_config("t").may_have_gaps


COMPACTED = {"log.cleanup.policy": "compact"}


def test_a_default_that_lets_topics_be_compacted_marks_them_for_good() -> None:
    asked = with_topic()
    alter(asked, ("log.cleanup.policy", SET, "compact"), of=(BROKER, ""))
    assert asked.image.topic_config("t").may_be_compacted

    alter(asked, ("log.cleanup.policy", SET, "delete"), of=(BROKER, ""))

    assert not asked.image.topic_config("t").may_be_compacted
    assert asked.image.topic_config("t").may_have_gaps


def test_a_default_of_one_broker_marks_the_topics_as_well() -> None:
    asked = with_topic()

    alter(asked, ("log.cleanup.policy", SET, "compact,delete"), of=(BROKER, "2"))

    assert asked.image.topic_overrides("t") == {"chronik.gaps": "true"}


def test_a_topic_is_made_with_the_mark_that_the_default_asks_for() -> None:
    """A topic is made with the mark that the default asks for unless it says otherwise."""
    asked = Asked(COMPACTED, brokers=(1, 2))
    own = (("cleanup.policy", "delete"),)
    asked.ask(CreateTopics((NewTopic("t", topic_id(1)), NewTopic("kept", topic_id(2), configs=own))))

    assert asked.image.topic_overrides("t") == {"chronik.gaps": "true"}
    assert asked.image.topic_overrides("kept") == dict(own)
    alter(asked, ("cleanup.policy", DELETE, None), of=(TOPIC, "kept"))
    assert asked.image.topic_config("kept").may_be_compacted


def test_the_default_in_the_file_of_whoever_controls_now_marks_topics() -> None:
    """The default in the file of whoever controls now marks topics that another made. At a registration, and with the
    first word of its own."""
    of_now = Cluster(settings=COMPACTED)
    of_now.topic((1, 2))
    of_now.image.apply(ConfigRecord(TOPIC, "t", "chronik.gaps", None))
    assert not of_now.image.topic_config("t").may_be_compacted

    of_now.beat(2)
    assert not of_now.image.topic_config("t").may_be_compacted
    of_now.beat(1)
    assert of_now.image.topic_config("t").may_be_compacted

    of_now.image.apply(ConfigRecord(TOPIC, "t", "chronik.gaps", None))
    of_now.start(3)
    assert of_now.image.topic_config("t").may_be_compacted


def test_a_node_whose_file_differs_compacts_nothing_by_itself() -> None:
    """A node whose file differs compacts nothing by itself and takes what others have compacted."""
    of_deleting = Cluster()
    of_deleting.topic((1, 2))
    compacting = MetadataImage("cluster", NodeConfig.from_settings({"node.id": "2", **COMPACTED}))
    of_compacting = Cluster(settings=COMPACTED)
    of_compacting.topic((1, 2))
    deleting = MetadataImage("cluster", NodeConfig.from_settings({"node.id": "2"}))
    for image, told in ((compacting, of_deleting.image), (deleting, of_compacting.image)):
        for kind, name, values in told.overrides():
            for key, value in values.items():
                image.apply(ConfigRecord(kind, name, key, value))

    assert compacting.topic_config("t").is_compacted
    assert not compacting.topic_config("t").may_be_compacted
    assert deleting.topic_config("t").may_have_gaps
    leader, follower = open_log(MemoryFiles(), COMPACT), open_log(MemoryFiles(), deleting.topic_config("t"))
    for _ in range(40):
        put(leader, batch_of(value=b"v" * 60))
    compact(leader)
    follower.append_as_follower(contents(leader), NOW_MS)  # also an empty one, which begins with a gap
    assert (follower.end_offset, contents(follower)) == (40, contents(leader))


def test_where_there_are_several_brokers_one_minimum_holds_for_all() -> None:
    """With one number for who may lead and another for what is safe, an acknowledged record could be lost."""
    controller = Cluster(settings={"min.insync.replicas": "2"})
    leader = MetadataImage("cluster", NodeConfig.from_settings({"node.id": "2", "min.insync.replicas": "1"}))
    for kind, name, values in controller.image.overrides():
        for key, value in values.items():
            leader.apply(ConfigRecord(kind, name, key, value))

    assert controller.image.broker_overrides("") == {"min.insync.replicas": "2"}
    assert leader.topic_config("any").min_insync_replicas == 2
    assert leader.node_config.overruled() == {"min.insync.replicas": ("1", "2")}


def test_what_one_broker_was_told_of_it_before_is_taken_back() -> None:
    cluster = Cluster((2,), settings={"min.insync.replicas": "2"})
    cluster.image.apply(ConfigRecord(BROKER, "2", "min.insync.replicas", "1"))

    cluster.start(3)

    assert list(cluster.image.overrides()) == [(BROKER, "", {"min.insync.replicas": "2"})]


def test_a_broker_that_is_alone_keeps_its_file() -> None:
    alone = Cluster((1,))
    alone.start(1)

    assert alone.image.broker_overrides("") == {}


def test_the_minimum_of_all_is_altered_for_all_and_never_taken_back() -> None:
    cluster = Cluster(settings={"min.insync.replicas": "2"})
    key = "min.insync.replicas"

    assert alter(cluster, (key, SET, "1"), of=(BROKER, "2")).code is Code.INVALID_CONFIG
    assert alter(cluster, (key, DELETE, None), of=(BROKER, "")).code is Code.INVALID_CONFIG
    assert alter(cluster, (key, SET, "1"), of=(BROKER, "")).code is Code.NONE
    assert cluster.image.topic_config("any").min_insync_replicas == 1
    cluster.start(3)
    assert cluster.image.broker_overrides("") == {key: "1"}


def test_a_client_that_names_all_settings_of_all_brokers_need_not_know_the_minimum() -> None:
    # AlterConfigs (33) removes what it does not name. Kafka's older tools send what they were told to set, and no more.
    cluster = Cluster(settings={"min.insync.replicas": "2"})

    assert alter(cluster, ("message.max.bytes", SET, "77"), of=(BROKER, ""), replace_all=True).code is Code.NONE
    assert cluster.image.broker_overrides("") == {"message.max.bytes": "77", "min.insync.replicas": "2"}

    assert alter(cluster, of=(BROKER, ""), replace_all=True).code is Code.NONE
    assert cluster.image.broker_overrides("") == {"min.insync.replicas": "2"}


def test_a_setting_of_kafkas_brokers_without_effect_is_taken_kept_and_shown() -> None:
    cluster = Cluster()
    key = "num.io.threads"

    assert alter(cluster, (key, SET, "16"), of=(BROKER, "")).code is Code.NONE
    assert alter(cluster, (key, SET, "8"), of=(BROKER, "2")).code is Code.NONE

    assert cluster.image.broker_overrides("")[key] == "16"
    config = cluster.image.node_config.with_dynamic(cluster.image.broker_overrides(""), {})
    shown = {each.name: each for each in describe_node(config)}
    assert (shown[key].value, shown[key].source) == ("16", Source.DYNAMIC_CLUSTER)
    assert key in {each.name for each in describe_cluster_wide(config)}
    assert key not in {each.name for each in describe_node(NodeConfig())}


@pytest.mark.parametrize("key", ["authorizer.class.name", "ssl.keystore.location", "num.io.thread"])
def test_what_asks_for_something_that_is_missing_is_not_taken(key: str) -> None:
    """What asks for something that is missing is not taken for a setting without effect."""
    assert alter(Cluster(), (key, SET, "x"), of=(BROKER, "")).code is Code.INVALID_REQUEST


def test_a_cleanup_policy_may_be_empty() -> None:
    asked = with_topic()

    assert alter(asked, ("cleanup.policy", SUBTRACT, "delete")).code is Code.NONE

    assert asked.image.topic_config("t").cleanup_policy == ()


def leaderless() -> Cluster:
    """Two topics whose only replica in sync is dead, while another is alive."""
    cluster = Cluster()
    cluster.topic((1, 2), (1, 3))
    cluster.topic((1, 2), name="u")
    cluster.fence(2, 3, 1)
    cluster.unfence(2, 3)
    assert [led(cluster.partition(*of)) for of in ((0, "t"), (1, "t"), (0, "u"))] == [(NO_LEADER, (1,), ())] * 3
    return cluster


def test_unclean_elections_allowed_for_a_topic_are_held_where_nobody_leads() -> None:
    cluster = leaderless()

    assert not alter(cluster, (UNCLEAN, SET, "true")).code

    assert [led(cluster.partition(number)) for number in (0, 1)] == [(2, (2,), ()), (3, (3,), ())]
    assert all(cluster.partition(number).is_recovering for number in (0, 1))
    assert led(cluster.partition(name="u")) == (NO_LEADER, (1,), ()), "it was not allowed for this one"


def test_unclean_elections_allowed_for_all_brokers_are_held_where_nobody_leads() -> None:
    cluster = leaderless()
    alter(cluster, (UNCLEAN, SET, "false"), of=(TOPIC, "u"))

    assert not alter(cluster, (UNCLEAN, SET, "true"), of=(BROKER, "")).code

    assert [led(cluster.partition(number)) for number in (0, 1)] == [(2, (2,), ()), (3, (3,), ())]
    assert led(cluster.partition(name="u")) == (NO_LEADER, (1,), ()), "it forbids them itself"


def test_a_topic_that_takes_back_its_own_refusal_has_them_as_well() -> None:
    cluster = leaderless()
    alter(cluster, (UNCLEAN, SET, "false"))
    alter(cluster, (UNCLEAN, SET, "true"), of=(BROKER, ""))
    assert not cluster.partition().has_leader

    alter(cluster, (UNCLEAN, DELETE, None))

    assert cluster.partition().leader == 2


def test_no_election_is_held_when_they_are_only_tried_or_forbidden() -> None:
    """No election is held when they are only tried or forbidden or nobody is alive."""
    cluster = leaderless()
    alter(cluster, (UNCLEAN, SET, "true"), validate_only=True)
    alter(cluster, (UNCLEAN, SET, "false"))
    assert not cluster.partition().has_leader

    cluster.fence(2, 3)
    alter(cluster, (UNCLEAN, SET, "true"))
    assert not cluster.partition().has_leader
    cluster.unfence(2)

    assert [cluster.partition(number).leader for number in (0, 1)] == [2, NO_LEADER]


def test_an_election_sees_what_else_was_altered_with_it() -> None:
    cluster = leaderless()
    before = content(cluster.image)

    decision = cluster.machine.decide(
        5, AlterConfigs((ConfigChange(TOPIC, "t", ((UNCLEAN, SET, "true"), ("min.insync.replicas", SET, "2"))),)), 0
    )

    assert content(cluster.image) == before, "decide changes nothing"
    cluster.take(decision.facts)
    assert led(cluster.partition()) == (2, (2,), ())
    assert content(cluster.replayed().image) == content(cluster.image)


def test_a_group_has_settings_of_its_own_whether_it_exists_or_not() -> None:
    asked = Asked()

    assert alter(asked, ("consumer.session.timeout.ms", SET, "50000"), of=(GROUP, "g")) == DONE
    assert asked.image.group_overrides("g") == {"consumer.session.timeout.ms": "50000"}
    assert asked.image.copy().group_overrides("g") == asked.image.group_overrides("g")
    again = MetadataImage("cluster", asked.config)
    again.refill(records_of(asked.image), asked.image.version)
    assert again.group_overrides("g") == asked.image.group_overrides("g")

    assert alter(asked, ("consumer.session.timeout.ms", DELETE, None), of=(GROUP, "g")) == DONE
    assert asked.image.group_overrides_count == 0


@pytest.mark.parametrize(
    ("group_id", "key", "value", "code"),
    [
        ("g", "consumer.session.timeout.ms", "1", Code.INVALID_CONFIG),
        ("g", "foo", "1", Code.INVALID_CONFIG),
        ("", "consumer.session.timeout.ms", "50000", Code.INVALID_REQUEST),
        ("g" * 32_768, "consumer.session.timeout.ms", "50000", Code.INVALID_REQUEST),
    ],
)
def test_a_groups_setting_that_cannot_be_is_refused(group_id: str, key: str, value: str, code: Code) -> None:
    asked = Asked()

    assert alter(asked, (key, SET, value), of=(GROUP, group_id)).code is code
    assert asked.image.group_overrides_count == 0


def test_not_every_name_can_be_given_settings() -> None:
    asked = Asked()
    for number in range(GROUPS_WITH_SETTINGS_MAX):
        asked.image.apply(ConfigRecord(GROUP, f"g{number}", "consumer.session.timeout.ms", "50000"))
    session = ("consumer.session.timeout.ms", SET, "51000")

    assert alter(asked, session, of=(GROUP, "one more")).code is Code.INVALID_REQUEST
    assert alter(asked, session, of=(GROUP, "g0")) == DONE
