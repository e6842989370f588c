"""What changes the cluster goes to the controller, wherever it is. Levels of loggers stay: they are this node's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import fields, is_dataclass
from typing import Any

from chronik.api.throttling import throttle_ms_of
from chronik.core.errors import Code, Refused
from chronik.node.net.peers import Unreachable
from chronik.node.routing.asked import Asked, Relayed
from chronik.node.routing.cluster_metadata import ClusterMetadata
from chronik.node.routing.logger_requests import alter_loggers, names_loggers
from chronik.wire.codec import decode_response

log = logging.getLogger(__name__)

CONTROLLER_WAIT_MS = 20_000
CONTROLLER_RETRY_MS = 20
CATCH_UP_MS = 5000


class ControllerForwarder:
    """Has requests answered by the present controller, or the next one."""

    def __init__(self, node_id: int, cluster: ClusterMetadata) -> None:
        self._node_id = node_id
        self._cluster = cluster

    @property
    def is_controller(self) -> bool:
        return self._cluster.is_controller

    def handle(self, asked: Asked, request: Any) -> Coroutine[Any, Any, Any]:
        """The controller's response, or a `Relayed` one. Raises Refused."""
        if names_loggers(asked.header, request):
            return alter_loggers(asked, request, self._ask_controller)
        return self._ask_controller(asked, request, asked.call.frame)

    async def _ask_controller(self, asked: Asked, request: Any, frame: memoryview) -> Any:
        """A controller that is lost half-way is asked again elsewhere, as Kafka does: the response may then say that
        its topic exists already."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CONTROLLER_WAIT_MS / 1000
        while True:
            try:
                if self._cluster.is_controller:
                    return await asked.here(request)
                controller_id = self._cluster.controller_id
                if controller_id is not None and controller_id != self._node_id:
                    left_ms = max(1, int((until - loop.time()) * 1000))
                    answer = await asked.route.ask(controller_id, (frame,), left_ms)
                    response = decode_response(asked.header.api_key, asked.header.version, answer)
                    if not _says(response, Code.NOT_CONTROLLER):
                        # So that the client sees here what it has changed there.
                        await self._cluster.wait_until_caught_up(CATCH_UP_MS)
                        return Relayed(answer, throttle_ms_of(response))
            except Unreachable as problem:
                log.debug("%s", problem)
            except Refused as refusal:
                if refusal.code is not Code.NOT_CONTROLLER:
                    raise
            if asked.route.is_closed or loop.time() >= until:
                raise Refused(Code.NOT_CONTROLLER, "there is no controller at the moment")
            await asyncio.sleep(CONTROLLER_RETRY_MS / 1000)


def _says(message: Any, code: Code) -> bool:
    """Whether the code stands anywhere in a response."""
    if isinstance(message, tuple):
        return any(_says(one, code) for one in message)
    if not is_dataclass(message):
        return False
    if getattr(message, "error_code", Code.NONE) == code:
        return True
    return any(_says(getattr(message, field.name), code) for field in fields(message))
