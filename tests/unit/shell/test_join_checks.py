"""The other nodes of a cluster that never will be: this node itself, strangers, another version."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from pathlib import Path

import pytest
from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.metadata.v12.response import MetadataResponse

from chronik.client.request import Address
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.shell.errors import StartError
from chronik.shell.files import RealFiles
from chronik.shell.join_checks import refuse_own_address, refuse_strangers, refuse_twin, with_voters
from chronik.shell.ports import free_ports
from chronik.wire.codec import encode_response
from chronik.wire.versions import API_VERSIONS, APIS, FETCH
from tests.unit.client.answering import Answer, answering

METADATA, DESCRIBE_QUORUM = 3, 55
OURS = {api.key: (api.lowest, api.highest) for api in APIS.values()}


def config(voters: str, listen: str = "127.0.0.1:9092", node_id: int = 1) -> NodeConfig:
    return NodeConfig.from_settings(
        {
            "node.id": str(node_id),
            "cluster.id": "a-cluster",
            "listeners": listen,
            "controller.quorum.voters": voters,
        }
    )


def speaking(ranges: Mapping[int, tuple[int, int]]) -> Answer:
    """Answers ApiVersions with these."""
    keys = tuple(ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items())
    response = ApiVersionsResponse(error_code=Code.NONE, api_keys=keys, throttle_time=datetime.timedelta(0))
    return lambda request: encode_response(API_VERSIONS, 3, int.from_bytes(request[8:12], "big"), response)


def either(*answers: tuple[int, Answer]) -> Answer:
    """Answers each request by its key; a connection with any other is hung up."""
    by_key = dict(answers)
    return lambda request: by_key.get(int.from_bytes(request[4:6], "big"), lambda _: b"")(request)


def belonging_to(cluster_id: str) -> Answer:
    """Answers Metadata as a node of this cluster."""
    response = MetadataResponse(
        throttle_time=datetime.timedelta(0), brokers=(), cluster_id=cluster_id, controller_id=-1, topics=()
    )
    return lambda request: encode_response(METADATA, 12, int.from_bytes(request[8:12], "big"), response)


def look_at(address: Address) -> None:
    asyncio.run(refuse_strangers(config(f"1@127.0.0.1:9092,2@{address[0]}:{address[1]}")))


@pytest.mark.parametrize(
    ("listen", "voters"),
    [
        ("127.0.0.1:9092", "1@127.0.0.1:9092,2@127.0.0.2:9092"),
        ("localhost:9092", "1@127.0.0.1:9092,2@127.0.0.2:9092"),
        ("0.0.0.0:9092", "1@localhost:9092,2@127.0.0.2:9092"),
    ],
)
def test_a_voter_whose_address_is_this_nodes_own_is_refused(listen: str, voters: str) -> None:
    with pytest.raises(
        StartError, match=r"but that is this node, which is node 2: one of the two, or node\.id, is wrong"
    ):
        refuse_own_address(config(voters, listen, node_id=2))


@pytest.mark.parametrize(
    ("listen", "voters"),
    [
        ("127.0.0.1:9092", "1@127.0.0.1:9092,2@127.0.0.1:9093"),
        ("127.0.0.1:9092", "1@127.0.0.1:9092,2@127.0.0.2:9092"),
        ("0.0.0.0:9092", "1@127.0.0.1:9092,2@192.0.2.1:9092"),
        ("0.0.0.0:9092", "1@127.0.0.1:9092,2@no-such-host.invalid:9092"),
    ],
    ids=["another port", "another address", "another machine", "an unknown name"],
)
def test_other_addresses_are_others(listen: str, voters: str) -> None:
    refuse_own_address(config(voters, listen))


@pytest.mark.parametrize("cluster_id", ["a-cluster", ""])
def test_a_node_of_the_same_version_and_cluster_is_company(cluster_id: str) -> None:
    node = either((API_VERSIONS, speaking(OURS)), (METADATA, belonging_to(cluster_id)))
    with answering(node) as address:
        look_at(address)


def test_a_node_of_another_cluster_is_refused() -> None:
    node = either((API_VERSIONS, speaking(OURS)), (METADATA, belonging_to("another")))
    with answering(node) as address, pytest.raises(StartError, match="to the cluster another, this one to a-cluster"):
        look_at(address)


def test_a_node_whose_number_another_one_has_is_refused_while_that_lives() -> None:
    with answering(speaking(OURS)) as address:
        twin = config(f"1@{address[0]}:{address[1]},2@127.0.0.1:1", listen="127.0.0.1:0")
        with pytest.raises(StartError, match=f"another node with id 1 is alive at 127.0.0.1:{address[1]}"):
            asyncio.run(refuse_twin(twin))

    asyncio.run(refuse_twin(twin))


def test_a_node_is_not_its_own_twin() -> None:
    with answering(speaking(OURS)) as address:  # a port that is taken is found by listening on it
        asyncio.run(refuse_twin(config(f"1@{address[0]}:{address[1]},2@a:1", listen=f"127.0.0.1:{address[1]}")))


def test_a_node_that_lacks_a_version_this_one_needs_is_refused() -> None:
    newer = OURS | {FETCH: (99, 100)}
    with answering(speaking(newer)) as address, pytest.raises(StartError) as refused:
        look_at(address)

    assert (
        f"the node at 127.0.0.1:{address[1]} speaks another version: of fetch this node knows" in refused.value.message
    )
    assert refused.value.message.endswith("and it knows 99 to 100")


def test_a_node_that_does_not_know_what_nodes_ask_each_other_is_refused() -> None:
    a_client_only_broker = {key: span for key, span in OURS.items() if APIS[key].name != "broker_heartbeat"}
    words = r"of broker_heartbeat this node knows .* and it does not know it"
    with answering(speaking(a_client_only_broker)) as address, pytest.raises(StartError, match=words):
        look_at(address)


def test_what_is_no_kafka_node_at_all_is_refused() -> None:
    words = r"there is no node of this cluster at .* does not speak Kafka's protocol"
    page = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with answering(lambda request: page) as address, pytest.raises(StartError, match=words):
        look_at(address)


def test_who_does_not_answer_may_come_yet() -> None:
    look_at(("127.0.0.1", free_ports(1)[0]))
    with answering(lambda request: b"") as address:
        look_at(address)


def quorum_of(voters: Mapping[int, Address]) -> Answer:
    """Answers DescribeQuorum with these."""
    states = tuple(
        ReplicaState(
            replica_id=voter,
            replica_directory_id=None,
            log_end_offset=1,
            last_fetch_timestamp=-1,
            last_caught_up_timestamp=-1,
        )
        for voter in voters
    )
    part = PartitionData(
        partition_index=0,
        error_code=Code.NONE,
        error_message=None,
        leader_id=1,
        leader_epoch=1,
        high_watermark=1,
        current_voters=states,
        observers=(),
    )
    response = DescribeQuorumResponse(
        error_code=Code.NONE,
        error_message=None,
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(part,)),),
        nodes=tuple(
            Node(node_id=voter, listeners=(Listener(name="CONTROLLER", host=host, port=port),))
            for voter, (host, port) in voters.items()
        ),
    )
    return lambda request: encode_response(DESCRIBE_QUORUM, 2, int.from_bytes(request[8:12], "big"), response)


def joining(*addresses: Address) -> NodeConfig:
    servers = ",".join(f"{host}:{port}" for host, port in addresses)
    settings = {"node.id": "4", "cluster.id": "a-cluster", "listeners": "127.0.0.1:1"}
    return NodeConfig.from_settings(settings | {"controller.quorum.bootstrap.servers": servers})


def test_a_node_that_joins_learns_the_voters_and_remembers_them(tmp_path: Path) -> None:
    voters = {2: ("b.example", 9092), 1: ("::1", 9092)}
    nobody = ("127.0.0.1", free_ports(1)[0])
    with answering(either((DESCRIBE_QUORUM, quorum_of(voters)))) as address:
        learned = asyncio.run(with_voters(joining(nobody, address), RealFiles(str(tmp_path))))
    again = asyncio.run(with_voters(joining(nobody), RealFiles(str(tmp_path))))  # with nothing there to ask

    assert learned.voters == again.voters == {1: ("::1", 9092), 2: ("b.example", 9092)}


def test_a_node_that_joins_strangers_is_refused(tmp_path: Path) -> None:
    words = "there is no node of this cluster at"
    page = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with answering(lambda request: page) as address, pytest.raises(StartError, match=words):
        asyncio.run(with_voters(joining(address), RealFiles(str(tmp_path))))

    assert list(tmp_path.iterdir()) == []


def test_a_node_that_joins_another_cluster_is_refused_and_remembers_nothing(tmp_path: Path) -> None:
    other = either(
        (DESCRIBE_QUORUM, quorum_of({1: ("a", 1)})),
        (API_VERSIONS, speaking(OURS)),
        (METADATA, belonging_to("another")),
    )
    with answering(other) as address, pytest.raises(StartError, match="belongs to the cluster another"):
        asyncio.run(with_voters(joining(address), RealFiles(str(tmp_path))))

    assert list(tmp_path.iterdir()) == []


def test_a_node_does_not_join_itself(tmp_path: Path) -> None:
    """It would be the only voter of a second cluster, with the name of the first."""
    with answering(quorum_of({4: ("127.0.0.1", 9092)})) as address, pytest.raises(StartError, match=r"node\.id|node 4"):
        asyncio.run(with_voters(joining(address), RealFiles(str(tmp_path))))

    assert list(tmp_path.iterdir()) == []


def test_a_node_that_names_its_voters_asks_nobody(tmp_path: Path) -> None:
    named = config("1@127.0.0.1:9092,2@127.0.0.1:9093")

    assert asyncio.run(with_voters(named, RealFiles(str(tmp_path)))) is named
