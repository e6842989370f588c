"""All nodes behind one address: every request goes where it belongs, and a client sees one node that has everything."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest

from chronik.api.call import Peer
from chronik.api.table import module_of
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import DescribedClassic
from chronik.node.net.connection import Slot
from chronik.node.net.peers import Unreachable
from chronik.node.routing.forwarding import CONTROLLER_BOUND
from chronik.wire.versions import APIS, FETCH
from tests.unit.node.town import CORRELATION_ID, HERE, SECOND, THIRD, Sent, Town, in_town, response_in
from tests.unit.wire.messages import request_type, response_type

KEYS = {api.name: api.key for api in APIS.values()}
NO_TIME = datetime.timedelta(0)


def kio(name: str, kind: str = "request") -> Any:
    """The module of the newest messages of that name."""
    api = APIS[KEYS[name]]
    types = request_type if kind == "request" else response_type
    return __import__(types(api.key, api.highest).__module__, fromlist=["*"])


def ask(town: Town, name: str, message: Any, version: int | None = None, peer: Peer | None = None) -> Slot:
    api = APIS[KEYS[name]]
    return town.ask(api.key, api.highest if version is None else version, message, peer)


def answered(slot: Slot, name: str, version: int | None = None) -> Any:
    api = APIS[KEYS[name]]
    return response_in(slot, api.key, api.highest if version is None else version)


def heard(sent: Sent) -> Any:
    return sent.decoded(module_of(sent.header.api_key).REQUEST)


# --- when


@in_town()
async def test_nodes_with_addresses_of_their_own_are_found_by_the_clients_themselves(town: Town) -> None:
    assert town.forwarding.taken == CONTROLLER_BOUND


@in_town(one_address=True)
async def test_only_live_nodes_count(town: Town) -> None:
    assert FETCH in town.forwarding.taken

    town.fence(SECOND)
    town.fence(THIRD)

    assert town.forwarding.taken == CONTROLLER_BOUND


# --- partitions


def list_offsets(*partitions: int) -> Any:
    types = kio("list_offsets")
    wanted = tuple(
        types.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=-1)
        for number in partitions
    )
    topic = types.ListOffsetsTopic(name="orders", partitions=wanted)
    return types.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,), timeout=NO_TIME)


def tell_offsets(sent: Sent) -> None:
    """Partition n ends at 100 times the node's number, plus n."""
    types = kio("list_offsets", "response")
    topics = tuple(
        types.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                types.ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=Code.NONE,
                    offset=100 * sent.node_id + one.partition_index,
                )
                for one in topic.partitions
            ),
        )
        for topic in heard(sent).topics
    )
    sent.respond(types.ListOffsetsResponse(throttle_time=NO_TIME, topics=topics))


def offsets(slot: Slot, version: int | None = None) -> list[tuple[int, int, int]]:
    response = answered(slot, "list_offsets", version)
    return [(one.partition_index, one.error_code, one.offset) for topic in response.topics for one in topic.partitions]


@pytest.mark.parametrize("version", [1, 5, 11])
def test_partitions_of_several_leaders_are_asked_for_in_parts(version: int) -> None:
    """Partitions of several leaders are asked for in parts and put together in order."""

    @in_town(one_address=True)
    async def test(town: Town) -> None:
        slot = ask(town, "list_offsets", list_offsets(3, 0, 1, 2), version)
        await town.settle()
        assert [(sent.node_id, sent.header.version) for sent in town.peers.sent] == [
            (THIRD, version),
            (SECOND, version),
        ]

        for sent in town.peers.sent:
            tell_offsets(sent)
        await town.settle()

        assert offsets(slot, version) == [(3, 0, 303), (0, 0, 0), (1, 0, 201), (2, 0, 202)]

    test()


@in_town(one_address=True)
async def test_what_belongs_to_one_node_goes_there_as_it_is(town: Town) -> None:
    slot = ask(town, "list_offsets", list_offsets(1, 2))
    await town.settle()
    (sent,) = town.peers.sent
    assert sent.header.correlation_id == CORRELATION_ID

    tell_offsets(sent)
    await town.settle()

    assert offsets(slot) == [(1, 0, 201), (2, 0, 202)]


@in_town(one_address=True)
async def test_what_belongs_here_or_nowhere_is_answered_here(town: Town) -> None:
    slot = ask(town, "list_offsets", list_offsets(0, 4, 9))
    await town.settle()

    assert town.peers.sent == []
    assert [code for _, code, _ in offsets(slot)] == [
        Code.NONE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@in_town(one_address=True)
async def test_a_leader_that_is_not_reached_takes_only_its_own_partitions_down(town: Town) -> None:
    slot = ask(town, "list_offsets", list_offsets(1, 3))
    await town.settle()
    town.peers.to(SECOND)[0].fail(Unreachable("gone"))
    tell_offsets(town.peers.to(THIRD)[0])
    await town.settle()

    assert [(number, code) for number, code, _ in offsets(slot)] == [(1, Code.NOT_LEADER_OR_FOLLOWER), (3, Code.NONE)]


@in_town(one_address=True)
async def test_one_leader_that_is_not_reached_is_told_of_every_partition(town: Town) -> None:
    slot = ask(town, "list_offsets", list_offsets(1, 2))
    await town.settle()
    town.peers.sent[0].fail(Unreachable("gone"))
    await town.settle()

    assert [code for _, code, _ in offsets(slot)] == [Code.NOT_LEADER_OR_FOLLOWER] * 2


@in_town(one_address=True)
async def test_requests_about_partitions_of_other_shapes_are_cut_up_the_same_way(town: Town) -> None:
    epochs = kio("offset_for_leader_epoch")
    partition = epochs.OffsetForLeaderPartition
    of_epochs = epochs.OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=(
            epochs.OffsetForLeaderTopic(
                topic="orders",
                partitions=tuple(partition(partition=n, current_leader_epoch=-1, leader_epoch=0) for n in (1, 3)),
            ),
        ),
    )
    producers = kio("describe_producers")
    of_producers = producers.DescribeProducersRequest(
        topics=(producers.TopicRequest(name="orders", partition_indexes=(3, 1)),)
    )
    records = kio("delete_records")
    of_records = records.DeleteRecordsRequest(
        topics=(
            records.DeleteRecordsTopic(
                name="orders",
                partitions=tuple(records.DeleteRecordsPartition(partition_index=n, offset=0) for n in (3, 1)),
            ),
        ),
        timeout=NO_TIME,
    )
    for name, request in (
        ("offset_for_leader_epoch", of_epochs),
        ("describe_producers", of_producers),
        ("delete_records", of_records),
    ):
        town.peers.sent.clear()
        slot = ask(town, name, request)
        await town.settle()
        module = module_of(KEYS[name])
        assert sorted(sent.node_id for sent in town.peers.sent) == [SECOND, THIRD]

        for sent in town.peers.sent:
            codes = {SECOND: Code.FENCED_LEADER_EPOCH, THIRD: Code.KAFKA_STORAGE_ERROR}
            sent.respond(module.refuse(heard(sent), codes[sent.node_id], None))
        await town.settle()

        (topic,) = answered(slot, name).topics
        expected = {1: Code.FENCED_LEADER_EPOCH, 3: Code.KAFKA_STORAGE_ERROR}
        numbers = [getattr(one, "partition_index", getattr(one, "partition", None)) for one in topic.partitions]
        assert numbers == ([1, 3] if name == "offset_for_leader_epoch" else [3, 1])
        assert [one.error_code for one in topic.partitions] == [expected[number] for number in numbers]


# --- groups


@in_town(one_address=True)
async def test_a_groups_request_goes_to_its_coordinator(town: Town) -> None:
    town.coordinate("g", THIRD)
    types = kio("heartbeat")
    slot = ask(town, "heartbeat", types.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    await town.settle()
    (sent,) = town.peers.sent
    assert sent.node_id == THIRD

    sent.respond(module_of(sent.header.api_key).refuse(heard(sent), Code.REBALANCE_IN_PROGRESS, None))
    await town.settle()

    assert answered(slot, "heartbeat").error_code == Code.REBALANCE_IN_PROGRESS


@in_town(one_address=True)
async def test_a_coordinator_that_is_not_reached_is_to_be_looked_for_again(town: Town) -> None:
    town.coordinate("g", THIRD)
    types = kio("heartbeat")
    slot = ask(town, "heartbeat", types.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    await town.settle()
    town.peers.sent[0].fail(Unreachable("gone"))
    await town.settle()

    assert answered(slot, "heartbeat").error_code == Code.NOT_COORDINATOR


@in_town(one_address=True)
async def test_joining_takes_as_long_as_the_others_need(town: Town) -> None:
    town.coordinate("g", THIRD)
    types = kio("join_group")
    request = types.JoinGroupRequest(
        group_id="g",
        session_timeout=datetime.timedelta(seconds=6),
        rebalance_timeout=datetime.timedelta(seconds=300),
        member_id="",
        protocol_type="consumer",
        protocols=(),
        reason=None,
    )
    ask(town, "join_group", request)
    await town.settle()

    assert [sent.timeout_ms for sent in town.peers.sent] == [-1]


def describe_groups(*names: str) -> Any:
    return kio("describe_groups").DescribeGroupsRequest(groups=names, include_authorized_operations=False)


@in_town(one_address=True)
async def test_groups_of_several_coordinators_are_asked_for_in_parts(town: Town) -> None:
    town.coordinate("a", SECOND)
    town.coordinate("b", HERE)
    town.coordinate("c", THIRD)
    town.coordinate("d", SECOND)

    def describe(group_id: str, command: Any) -> Any:
        return DescribedClassic(group_id, "Here", "", "", ())

    town.groups.answer = describe
    slot = ask(town, "describe_groups", describe_groups("c", "a", "b", "d"))
    await town.settle()
    for sent in town.peers.sent:
        refused = module_of(sent.header.api_key).refuse(heard(sent), Code.NONE, None)
        there = tuple(dataclasses.replace(group, group_state=f"On {sent.node_id}") for group in refused.groups)
        sent.respond(dataclasses.replace(refused, groups=there))
    await town.settle()

    assert [(group.group_id, group.group_state) for group in answered(slot, "describe_groups").groups] == [
        ("c", "On 3"),
        ("a", "On 2"),
        ("b", "Here"),
        ("d", "On 2"),
    ]


@in_town(one_address=True)
async def test_a_group_that_is_deleted_twice_is_answered_for_once(town: Town) -> None:
    town.coordinate("a", SECOND)
    town.coordinate("b", THIRD)
    slot = ask(town, "delete_groups", kio("delete_groups").DeleteGroupsRequest(groups_names=("a", "b", "a")))
    await town.settle()
    for sent in town.peers.sent:
        sent.respond(module_of(sent.header.api_key).refuse(heard(sent), Code.NON_EMPTY_GROUP, None))
    await town.settle()

    assert [one.group_id for one in answered(slot, "delete_groups").results] == ["a", "b"]


@pytest.mark.parametrize("version", [7, 8])
def test_committed_offsets_are_asked_for_by_group_in_old_and_new_versions(version: int) -> None:
    @in_town(one_address=True)
    async def test(town: Town) -> None:
        town.coordinate("a", SECOND)
        module = module_of(KEYS["offset_fetch"])
        from chronik.wire.unions.offset_fetch import AnyOffsetFetchRequest, Group

        request = AnyOffsetFetchRequest(group_id="a", topics=None, groups=(Group(group_id="a"),))
        slot = ask(town, "offset_fetch", request, version)
        await town.settle()
        (sent,) = town.peers.sent
        assert sent.node_id == SECOND
        sent.respond(module.refuse(heard(sent), Code.COORDINATOR_LOAD_IN_PROGRESS, None))
        await town.settle()

        assert "COORDINATOR_LOAD_IN_PROGRESS" in repr(answered(slot, "offset_fetch", version)).upper()

    test()


@in_town(one_address=True)
async def test_groups_of_all_nodes_are_listed(town: Town) -> None:
    types = kio("list_groups", "response")
    slot = ask(town, "list_groups", kio("list_groups").ListGroupsRequest(states_filter=(), types_filter=()))
    await town.settle()
    assert [sent.node_id for sent in town.peers.sent] == [SECOND, THIRD]
    for sent in town.peers.sent:
        group = types.ListedGroup(group_id=f"g{sent.node_id}", protocol_type="", group_state="", group_type="")
        sent.respond(types.ListGroupsResponse(throttle_time=NO_TIME, error_code=Code.NONE, groups=(group,)))
    await town.settle()

    assert [group.group_id for group in answered(slot, "list_groups").groups] == ["g2", "g3"]


@in_town(one_address=True)
async def test_a_list_that_lacks_some_groups_is_no_list(town: Town) -> None:
    types = kio("list_groups", "response")
    slot = ask(town, "list_groups", kio("list_groups").ListGroupsRequest(states_filter=(), types_filter=()))
    await town.settle()
    town.peers.to(SECOND)[0].fail(Unreachable("gone"))
    town.peers.to(THIRD)[0].respond(types.ListGroupsResponse(throttle_time=NO_TIME, error_code=Code.NONE, groups=()))
    await town.settle()

    assert answered(slot, "list_groups").error_code == Code.COORDINATOR_NOT_AVAILABLE


@in_town(one_address=True)
async def test_a_nodes_settings_are_asked_of_that_node_and_a_topics_of_any(town: Town) -> None:
    types = kio("describe_configs")

    def resource(kind: int, name: str) -> Any:
        return types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)

    request = types.DescribeConfigsRequest(
        resources=(resource(4, "2"), resource(2, "orders"), resource(4, "99")),
        include_synonyms=False,
        include_documentation=False,
    )
    slot = ask(town, "describe_configs", request)
    await town.settle()
    (sent,) = town.peers.sent
    assert [one.resource_name for one in heard(sent).resources] == ["2"]
    sent.respond(module_of(sent.header.api_key).refuse(heard(sent), Code.NONE, None))
    await town.settle()

    results = answered(slot, "describe_configs").results
    assert [(one.resource_name, one.error_code) for one in results] == [
        ("2", Code.NONE),
        ("orders", Code.NONE),
        ("99", Code.INVALID_REQUEST),
    ]


@in_town(one_address=True)
async def test_a_node_that_asks_is_answered_here_or_refused(town: Town) -> None:
    town.coordinate("g", THIRD)
    node = Peer(7, "10.0.0.8")
    node.is_node = True

    def refuse(group_id: str, command: Any) -> Any:
        raise Refused(Code.NOT_COORDINATOR)

    town.groups.answer = refuse
    beat = kio("heartbeat").HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    slots = [ask(town, "heartbeat", beat, peer=node), ask(town, "list_offsets", list_offsets(1), peer=node)]
    await town.settle()

    assert town.peers.sent == []
    assert answered(slots[0], "heartbeat").error_code == Code.NOT_COORDINATOR
    assert offsets(slots[1])[0][1] == Code.NOT_LEADER_OR_FOLLOWER


# --- transactions


@in_town(one_address=True)
async def test_a_transactional_producers_request_goes_to_its_coordinator(town: Town) -> None:
    town.coordinate_transactions("tx", SECOND)
    types, answers = kio("end_txn"), kio("end_txn", "response")
    request = types.EndTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=1, committed=True)
    slot = ask(town, "end_txn", request)
    await town.settle()
    [sent] = town.peers.sent
    assert (sent.node_id, heard(sent).transactional_id) == (SECOND, "tx")

    response = answers.EndTxnResponse(throttle_time=NO_TIME, error_code=Code.NONE, producer_id=7, producer_epoch=2)
    sent.respond(response)
    await town.settle()

    assert answered(slot, "end_txn") == response


@in_town(one_address=True)
async def test_partitions_are_added_where_the_transaction_is_coordinated(town: Town) -> None:
    town.coordinate_transactions("tx", THIRD)
    types = __import__("kio.schema.add_partitions_to_txn.v3.request", fromlist=["*"])
    topic = types.AddPartitionsToTxnTopic(name="orders", partitions=(0, 1))
    request = types.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=1,
        v3_and_below_topics=(topic,),
    )
    ask(town, "add_partitions_to_txn", request, 3)
    await town.settle()

    [sent] = town.peers.sent
    assert (sent.node_id, heard(sent).v3_and_below_transactional_id) == (THIRD, "tx")


@in_town(one_address=True)
async def test_a_producer_without_transactions_gets_its_id_here(town: Town) -> None:
    town.coordinate_transactions("tx", SECOND)
    types = kio("init_producer_id")

    def request(transactional_id: str | None) -> Any:
        return types.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=datetime.timedelta(seconds=60),
            producer_id=-1,
            producer_epoch=-1,
        )

    slot = ask(town, "init_producer_id", request(None))
    ask(town, "init_producer_id", request("tx"))
    await town.settle()

    assert [sent.node_id for sent in town.peers.sent] == [SECOND]
    assert slot.is_filled


@in_town(one_address=True)
async def test_transactions_of_several_coordinators_are_described_in_parts_and_listed_as_one(town: Town) -> None:
    town.coordinate_transactions("a", SECOND)
    town.coordinate_transactions("b", THIRD)
    ask(
        town,
        "describe_transactions",
        kio("describe_transactions").DescribeTransactionsRequest(transactional_ids=("a", "b")),
    )
    await town.settle()
    assert [(sent.node_id, heard(sent).transactional_ids) for sent in town.peers.sent] == [
        (SECOND, ("a",)),
        (THIRD, ("b",)),
    ]
    town.peers.sent.clear()

    types, answers = kio("list_transactions"), kio("list_transactions", "response")
    request = types.ListTransactionsRequest(
        state_filters=(), producer_id_filters=(), duration_filter=-1, transactional_id_pattern=None
    )
    slot = ask(town, "list_transactions", request)
    await town.settle()
    for sent in town.peers.sent:
        state = answers.TransactionState(
            transactional_id=f"of-{sent.node_id}", producer_id=sent.node_id, transaction_state="Ongoing"
        )
        sent.respond(
            answers.ListTransactionsResponse(
                throttle_time=NO_TIME, error_code=Code.NONE, unknown_state_filters=(), transaction_states=(state,)
            )
        )
    await town.settle()

    listed = answered(slot, "list_transactions").transaction_states
    assert sorted(one.transactional_id for one in listed) == [f"of-{SECOND}", f"of-{THIRD}"]
