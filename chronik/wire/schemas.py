"""The type of each message in each version: kio's, or ours where kio has none yet."""

from __future__ import annotations

from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema


@cache
def request_type(api_key: int, version: int) -> Any:
    from chronik.wire.kafka_4_4 import REQUESTS  # which loads modules of kio that most nodes never need

    return REQUESTS.get((api_key, version)) or load_request_schema(api_key, version)


@cache
def response_type(api_key: int, version: int) -> Any:
    from chronik.wire.kafka_4_4 import RESPONSES

    return RESPONSES.get((api_key, version)) or load_response_schema(api_key, version)
