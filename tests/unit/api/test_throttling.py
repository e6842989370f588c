"""What clients over a quota are answered: at once, with a time; fetches empty; changes of topics refused."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

from chronik.api import create_partitions, create_topics, delete_topics, fetch, produce, throttling
from chronik.api.call import Call, Peer
from chronik.api.context import Caller, RequestContext
from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.errors import Code
from chronik.core.quotas.client_quotas import ClientQuotas
from chronik.core.quotas.limits import QuotaLimits
from chronik.wire.fetch import FetchPartition, FetchRequest
from chronik.wire.framing import RequestHeader
from chronik.wire.unions.delete_topics import AnyDeleteTopicsRequest
from tests.unit.api.calls import KeptAnswer
from tests.unit.api.fake_context import ask, fake_context, metadata_of
from tests.unit.api.fetching import put
from tests.unit.api.house_context import Asked, HouseContext, run
from tests.unit.core.log.logs import batch_of
from tests.unit.wire.hot_requests import fetch_request, produce_request

CLIENT = (("client-id", "test"),)
SECOND = datetime.timedelta(seconds=1)


def limited(context: RequestContext, key: str, value: float, windows: int = 2) -> RequestContext:
    limits = QuotaLimits()
    limits.set(CLIENT, key, value)
    config = QuotasConfig(quota_window_num=windows, controller_quota_window_num=windows)
    object.__setattr__(context, "quotas", ClientQuotas(limits, config))
    return context


def send(context: HouseContext, module: Any, version: int, body: bytes, *, is_node: bool = False) -> tuple[Asked, Peer]:
    """As HouseContext.ask, and the connection it came by."""
    api_key = {produce: 0, fetch: 1}[module]
    asked = Asked(api_key, version)
    peer = Peer(1, "10.0.0.7")
    call = Call(memoryview(bytearray(body)), RequestHeader(api_key, version, 9, "test", 0), peer, KeptAnswer(asked))
    call.caller = Caller("test", "10.0.0.7", version, 1, is_node=is_node)
    asked.leave = module.start(call, context.context)
    return asked, peer


def produced(context: HouseContext, acks: int = 1, version: int = 12, *, is_node: bool = False) -> tuple[Asked, Peer]:
    body = produce_request(version, None, acks, 1000, [("orders", [(0, bytes(batch_of(1, value=b"x" * 1000)))])])
    return send(context, produce, version, body, is_node=is_node)


def fetched(context: HouseContext, session: tuple[int, int] = (0, -1), offset: int = 0) -> tuple[Asked, Peer]:
    asked = [] if session[1] > 0 else [FetchPartition("orders", 0, offset, 1_000_000, -1)]
    request = FetchRequest(-1, 0, 1, 50_000_000, 0, *session, asked, [])
    return send(context, fetch, 11, fetch_request(11, request))


@run()
async def test_a_producer_over_its_quota_is_answered_with_a_time_and_muted(context: HouseContext) -> None:
    limited(context.context, "producer_byte_rate", 600)
    for version in (3, 9, 12):
        asked, peer = produced(context, version=version)
        await context.settle()
        waits_ms = round(asked.response.throttle_time / datetime.timedelta(milliseconds=1))
        assert asked.response.responses[0].partition_responses[0].error_code == 0  # it is done all the same
        assert waits_ms > 500
        assert peer.throttle_ms == waits_ms


@run()
async def test_a_producer_that_wants_no_answer_is_muted_too(context: HouseContext) -> None:
    limited(context.context, "producer_byte_rate", 600)
    asked, peer = produced(context, acks=0)
    assert asked.response == ()
    assert peer.throttle_ms > 500


@run()
async def test_nodes_and_other_clients_are_not_throttled(context: HouseContext) -> None:
    limited(context.context, "producer_byte_rate", 600)
    asked, peer = produced(context, is_node=True)
    await context.settle()
    assert (asked.response.throttle_time, peer.throttle_ms) == (datetime.timedelta(0), 0)
    limited(context.context, "consumer_byte_rate", 1)
    asked, peer = produced(context)
    await context.settle()
    assert (asked.response.throttle_time, peer.throttle_ms) == (datetime.timedelta(0), 0)


@run()
async def test_a_fetch_over_its_quota_is_answered_empty_with_a_time(context: HouseContext) -> None:
    limited(context.context, "consumer_byte_rate", 2000)
    put(context, 1, 1, value=b"x" * 900)
    await context.settle()
    first, peer = fetched(context)
    assert len(first.response.responses[0].partitions[0].records) > 1800
    assert peer.throttle_ms == 0
    second, peer = fetched(context)
    assert second.response.responses == ()
    assert second.response.error_code == 0
    assert second.response.throttle_time > datetime.timedelta(milliseconds=500)
    assert peer.throttle_ms > 500
    context.house.clock.steady_ms += 3000
    third, peer = fetched(context)
    assert third.response.responses[0].partitions[0].records
    assert peer.throttle_ms == 0


@run()
async def test_a_withheld_first_fetch_of_a_session_leaves_none_and_a_later_one_keeps_it(context: HouseContext) -> None:
    limited(context.context, "consumer_byte_rate", 2000)
    put(context, 1, 1, value=b"x" * 900)
    await context.settle()
    fetched(context)
    sessions = context.context.fetching.sessions
    first, _ = fetched(context, session=(0, 0))
    assert (first.response.responses, first.response.session_id, len(sessions)) == ((), 0, 0)

    context.house.clock.steady_ms += 3000
    made, _ = fetched(context, session=(0, 0))
    session_id = made.response.session_id
    assert session_id
    withheld, _ = fetched(context, session=(session_id, 1))
    assert (withheld.response.responses, withheld.response.session_id) == ((), session_id)
    context.house.clock.steady_ms += 3000
    given, _ = fetched(context, session=(session_id, 2))  # what it could not have before
    assert given.response.responses[0].partitions[0].records


@run()
async def test_a_fetch_gets_no_more_than_its_quota_could_ever_give(context: HouseContext) -> None:
    limited(context.context, "consumer_byte_rate", 1500)
    put(context, 1, 1, 1, value=b"x" * 900)
    await context.settle()
    asked, _ = fetched(context)
    assert len(asked.response.responses[0].partitions[0].records) < 1000


@run()
async def test_time_over_the_quota_withholds_fetches_and_mutes(context: HouseContext) -> None:
    limited(context.context, "request_percentage", 1)
    caller = Caller("test", "10.0.0.7", 12, 1)
    throttling.record_time(caller, context.context, 20)
    asked, peer = produced(context)
    await context.settle()
    assert asked.response.throttle_time == SECOND
    assert peer.throttle_ms == 1000
    put(context, 1)
    await context.settle()
    asked, peer = fetched(context)
    assert (asked.response.responses, peer.throttle_ms) == ((), 1000)


def creation(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=(), configs=())
            for name in names
        ),
        timeout=SECOND,
        validate_only=False,
    )


def test_topics_over_the_quota_are_refused_to_those_that_know_the_code() -> None:
    context = limited(fake_context(), "controller_mutation_rate", 1)
    response = ask(create_topics, creation("a", "b", "c"), context, version=7)
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "a": 0,
        "b": Code.THROTTLING_QUOTA_EXCEEDED,
        "c": Code.THROTTLING_QUOTA_EXCEEDED,
    }
    assert response.throttle_time == SECOND
    assert set(metadata_of(context).image.topics) == {"a"}
    again = ask(create_topics, creation("b"), context, version=7)
    assert again.topics[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert metadata_of(context).image.topic("b") is None


def test_an_old_client_has_its_topics_and_waits() -> None:
    context = limited(fake_context(), "controller_mutation_rate", 1)
    response = ask(create_topics, creation("a", "b"), context, version=5)
    assert [topic.error_code for topic in response.topics] == [0, 0]
    assert response.throttle_time == 4 * SECOND


def test_a_node_makes_topics_whatever_the_quota() -> None:
    context = limited(fake_context(), "controller_mutation_rate", 1)
    response = ask(create_topics, creation("a", "b"), context, version=7, node_id=1)
    assert [topic.error_code for topic in response.topics] == [0, 0]
    assert response.throttle_time == datetime.timedelta(0)


def test_what_a_node_sends_on_for_a_client_counts_for_that_client() -> None:
    context = limited(fake_context(), "controller_mutation_rate", 1)
    caller = Caller("test", "10.0.0.7", 7, 1, is_node=True, is_forwarded=True)
    quota = throttling.mutation_quota(caller, context, 6)
    assert [quota.takes(5, 0), quota.takes(1, 0)] == [True, False]


def test_partitions_and_deletions_count_as_well() -> None:
    context = limited(fake_context(topics={"a": 3, "b": 3}), "controller_mutation_rate", 1)
    more = CreatePartitionsRequest(
        topics=tuple(CreatePartitionsTopic(name=name, count=6, assignments=None) for name in ("a", "b")),
        timeout=SECOND,
        validate_only=False,
    )
    response = ask(create_partitions, more, context, version=3)
    assert [(one.name, one.error_code) for one in response.results] == [
        ("a", 0),
        ("b", Code.THROTTLING_QUOTA_EXCEEDED),
    ]
    assert response.throttle_time == SECOND
    deletion = AnyDeleteTopicsRequest(topics=(), topic_names=("b",), timeout=SECOND)
    refused = ask(delete_topics, deletion, context, version=5)
    assert refused.responses[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert ask(delete_topics, deletion, context, version=4).responses[0].error_code == 0
