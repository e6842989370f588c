"""DescribeConfigs (32), versions 1-4. From 3 with the type of each setting and, if asked, what it does.

A topic shows every setting with the place its value comes from; a node shows its own settings and is asked itself,
because each node has a file of its own. The broker without a name shows what was altered for all of them. A group
need not exist. The loggers of a node are those of the process that is asked.
"""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from chronik.api import broker_loggers
from chronik.api.context import Caller, RequestContext
from chronik.core.config.definitions import ConfigType, Source
from chronik.core.config.describe import (
    ShownConfig,
    describe_cluster_wide,
    describe_group,
    describe_node,
    describe_topic,
)
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.image import ALL_BROKERS
from chronik.core.machines.metadata.names import problem_with

REQUEST = DescribeConfigsRequest
RESPONSE = DescribeConfigsResponse


def handle(request: DescribeConfigsRequest, caller: Caller, context: RequestContext) -> DescribeConfigsResponse:
    return _response(tuple(_described(resource, request, context) for resource in request.resources))


def _described(resource: Any, request: DescribeConfigsRequest, context: RequestContext) -> Any:
    try:
        shown = _shown(resource, context)
    except Refused as refused:
        return _result(resource, refused.code, refused.message, ())
    wanted = resource.configuration_keys  # null and empty both mean all
    configs = tuple(_config(config, request) for config in shown if not wanted or config.name in wanted)
    return _result(resource, Code.NONE, None, configs)


def _shown(resource: Any, context: RequestContext) -> list[ShownConfig]:
    image = context.metadata.image
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        problem = problem_with(name)
        if problem is not None:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, problem)
        if image.topic(name) is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return describe_topic(image.node_config, image.topic_overrides(name))
    if resource.resource_type == ResourceType.BROKER:
        if name == ALL_BROKERS:
            return describe_cluster_wide(image.node_config)
        if name == str(context.node_id):
            return describe_node(image.node_config)
        message = f"Unexpected broker id, expected {context.node_id} or empty string, but received {name}"
        raise Refused(Code.INVALID_REQUEST, message)
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            raise Refused(Code.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(image.node_config, image.group_overrides(name))
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        broker_loggers.check_node(name, context.node_id)
        return [_logger(*one) for one in broker_loggers.levels()]
    raise Refused(Code.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}.")


def _logger(name: str, level: str) -> ShownConfig:
    return ShownConfig(
        name=name,
        value=level,
        source=Source.BROKER_LOGGER,
        is_read_only=False,
        synonyms=(),
        type=ConfigType.STRING,
        documentation="",
    )


def _config(config: ShownConfig, request: DescribeConfigsRequest) -> Any:
    synonyms = config.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        is_sensitive=False,
        synonyms=tuple(DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source) for one in synonyms),
        config_type=config.type,
        documentation=config.documentation if request.include_documentation else None,
    )


def _result(resource: Any, code: Code, message: str | None, configs: tuple[Any, ...]) -> Any:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def _response(results: tuple[Any, ...]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(throttle_time=datetime.timedelta(0), results=results)


def refuse(request: DescribeConfigsRequest, code: Code, message: str | None) -> DescribeConfigsResponse:
    return _response(tuple(_result(resource, code, message, ()) for resource in request.resources))
