"""What changes the cluster goes to the controller, whatever that is; the client does not notice."""

from __future__ import annotations

import asyncio
import datetime
import logging

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from chronik.api.call import Peer
from chronik.core.errors import Code
from chronik.node.net.peers import Unreachable
from chronik.node.routing.controller_forwarder import CONTROLLER_WAIT_MS
from chronik.wire.errors import Malformed
from tests.unit.node.town import HERE, SECOND, THIRD, Sent, Town, in_time, in_town, response_in, until

CREATE_TOPICS, API_VERSIONS, ALTER = 19, 18, 44
NO_TIME = datetime.timedelta(0)


def create(name: str = "new") -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
    return CreateTopicsRequest(topics=(topic,), timeout=datetime.timedelta(seconds=30), validate_only=False)


def created(sent: Sent, code: Code = Code.NONE) -> None:
    result = CreatableTopicResult(
        name="new",
        topic_id=None,
        error_code=code,
        error_message=None,
        num_partitions=1,
        replication_factor=1,
        configs=(),
    )
    sent.respond(CreateTopicsResponse(throttle_time=NO_TIME, topics=(result,)))


@in_town()
async def test_the_frame_goes_to_the_controller_as_it_is_and_the_answer_waits(town: Town) -> None:
    """The frame goes to the controller as it is and the answer waits for this nodes image."""
    slot = town.ask(CREATE_TOPICS, 7, create())
    await town.settle()
    (sent,) = town.peers.sent
    assert (sent.node_id, sent.header.client_id) == (SECOND, "test")
    assert sent.decoded(CreateTopicsRequest) == create()

    created(sent, Code.TOPIC_ALREADY_EXISTS)
    await town.settle()

    (result,) = response_in(slot, CREATE_TOPICS, 7).topics
    assert (result.name, result.error_code) == ("new", Code.TOPIC_ALREADY_EXISTS)
    assert town.cluster.caught_up == 1


@in_time
async def test_a_controller_that_is_none_any_more_is_not_shown_to_the_client(town: Town) -> None:
    slot = town.ask(CREATE_TOPICS, 7, create())
    await until(lambda: len(town.peers.sent) == 1)

    created(town.peers.sent[0], Code.NOT_CONTROLLER)
    town.cluster.controller_id = None
    await until(lambda: town.peers.sent[0].answer.done())
    assert not slot.is_filled
    town.cluster.controller_id = THIRD
    await until(lambda: len(town.peers.sent) == 2)
    assert town.peers.sent[1].node_id == THIRD
    created(town.peers.sent[1])
    await until(lambda: slot.is_filled)

    assert response_in(slot, CREATE_TOPICS, 7).topics[0].error_code == Code.NONE


@in_time
async def test_a_controller_that_hangs_up_is_looked_for_again(town: Town) -> None:
    slot = town.ask(CREATE_TOPICS, 7, create())
    await until(lambda: len(town.peers.sent) == 1)

    town.peers.sent[0].fail(Unreachable("it hung up"))
    await until(lambda: len(town.peers.sent) == 2)
    created(town.peers.sent[1])
    await until(lambda: slot.is_filled)

    assert response_in(slot, CREATE_TOPICS, 7).topics[0].error_code == Code.NONE


@in_town()
async def test_a_controller_whose_broker_is_fenced_answers_all_the_same(town: Town) -> None:
    """Asked once more it would say that the topic exists, which it has just made."""
    slot = town.ask(CREATE_TOPICS, 7, create())
    await town.settle()

    town.fence(SECOND)
    assert not town.peers.links[0].is_closed
    created(town.peers.sent[0])
    await town.settle()

    assert response_in(slot, CREATE_TOPICS, 7).topics[0].error_code == Code.NONE
    assert len(town.peers.sent) == 1


@in_town()
async def test_a_controller_that_is_none_any_more_and_fenced_is_not_waited_for(town: Town) -> None:
    town.ask(CREATE_TOPICS, 7, create())
    await town.settle()
    town.fence(SECOND)

    town.cluster.controller_id = THIRD
    town.forwarding.metadata_applied([])

    assert town.peers.links[0].is_closed
    town.peers.sent[0].fail(Unreachable("the link was closed"))
    town.cluster.controller_id = HERE
    await town.settle()


@in_time
async def test_without_a_controller_the_client_is_told_so_in_the_end(town: Town) -> None:
    town.cluster.controller_id = None
    begun = asyncio.get_running_loop().time()

    slot = town.ask(CREATE_TOPICS, 7, create())
    await until(lambda: slot.is_filled)

    assert response_in(slot, CREATE_TOPICS, 7).topics[0].error_code == Code.NOT_CONTROLLER
    assert asyncio.get_running_loop().time() - begun >= CONTROLLER_WAIT_MS / 1000


@in_time
async def test_nobody_looks_for_a_controller_for_a_client_that_has_gone(town: Town) -> None:
    town.cluster.controller_id = None
    slot = town.ask(CREATE_TOPICS, 7, create())

    town.forwarding.connection_closed(1)
    town.cluster.controller_id = SECOND
    await until(lambda: slot.is_filled)

    assert town.peers.sent == []


@in_town()
async def test_a_node_that_asks_a_node_that_is_no_controller_is_refused(town: Town) -> None:
    """Two that take each other for the controller would send it to and fro."""
    node = Peer(9, "10.0.0.8")
    town.ask(API_VERSIONS, 3, ApiVersionsRequest(client_software_name="chronik", client_software_version="1"), node)
    assert node.is_node

    slot = town.ask(CREATE_TOPICS, 7, create(), node)
    await town.settle()

    assert town.peers.sent == []
    assert response_in(slot, CREATE_TOPICS, 7).topics[0].error_code == Code.NOT_CONTROLLER


@in_town()
async def test_a_client_of_another_name_is_no_node(town: Town) -> None:
    client = Peer(9, "10.0.0.8")
    for name in ("apache-kafka-java", "chronik-cli"):
        town.ask(API_VERSIONS, 3, ApiVersionsRequest(client_software_name=name, client_software_version="1"), client)

    assert not client.is_node


@in_town()
async def test_what_is_no_request_ends_the_connection_and_is_not_sent_on(town: Town) -> None:
    frame = bytes([0, CREATE_TOPICS, 0, 7]) + bytes(4) + b"\xff\xff\x00" + b"\xff\xff\xff\xff"
    with pytest.raises(Malformed):
        town.start(frame)

    assert town.peers.sent == []


@in_town()
async def test_the_controller_itself_answers_here(town: Town) -> None:
    town.cluster.controller_id = HERE

    slot = town.ask(CREATE_TOPICS, 7, create())
    await town.settle()

    assert len(town.cluster.asked) == 1
    assert town.peers.sent == []
    assert response_in(slot, CREATE_TOPICS, 7).topics[0].error_code == Code.NONE


@in_town()
async def test_the_level_of_a_logger_is_set_here_and_all_else_by_the_controller(town: Town) -> None:
    logger = logging.getLogger("chronik.node.routing.dispatch")
    loggers = AlterConfigsResource(
        resource_type=8,
        resource_name=str(HERE),
        configs=(AlterableConfig(name=logger.name, config_operation=0, value="FATAL"),),
    )
    topic = AlterConfigsResource(
        resource_type=2,
        resource_name="orders",
        configs=(AlterableConfig(name="retention.ms", config_operation=0, value="5"),),
    )
    before = logger.level
    try:
        alone = town.ask(ALTER, 1, IncrementalAlterConfigsRequest(resources=(loggers,), validate_only=False))
        await town.settle()
        assert response_in(alone, ALTER, 1).responses[0].error_code == Code.NONE
        assert (logger.level, town.peers.sent) == (logging.CRITICAL, [])

        both = town.ask(ALTER, 1, IncrementalAlterConfigsRequest(resources=(loggers, topic), validate_only=False))
        await town.settle()
        (sent,) = town.peers.sent
        assert sent.decoded(IncrementalAlterConfigsRequest).resources == (topic,)
        refused = AlterConfigsResourceResponse(
            error_code=Code.POLICY_VIOLATION, error_message="no", resource_type=2, resource_name="orders"
        )
        sent.respond(IncrementalAlterConfigsResponse(throttle_time=NO_TIME, responses=(refused,)))
        await town.settle()
        told = response_in(both, ALTER, 1).responses
        assert [(one.resource_type, one.error_code) for one in told] == [(8, Code.NONE), (2, Code.POLICY_VIOLATION)]
    finally:
        logger.setLevel(before)
