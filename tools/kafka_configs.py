"""What a broker says of its settings and of a topic's, as JSON: name, type, default, source, whether it is read-only.

    python tools/kafka_configs.py 127.0.0.1:9092 TOPIC > tests/clients/kafka_configs_4_3_1.json

The file that the tests compare with was made so from Apache Kafka 4.3.1, with a topic that sets nothing itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.metadata.v12.request import MetadataRequest

from chronik.client.request import Address, ask
from chronik.core.config.definitions import ConfigType, Source

TOPIC, BROKER = 2, 4
# Types that DescribeConfigs has beside ours.
OTHER_TYPES = {0: "unknown", 8: "class", 9: "password"}


def described(address: Address, topic: str) -> dict[str, dict[str, dict[str, Any]]]:
    """By resource and by setting."""
    metadata = ask(
        address,
        MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False),
    )
    resources = {"topic": (TOPIC, topic), "broker": (BROKER, str(metadata.brokers[0].node_id))}
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in resources.values()
        ),
        include_synonyms=True,
        include_documentation=False,
    )
    results = {result.resource_type: result for result in ask(address, request).results}
    return {
        name: {config.name: _setting(config) for config in sorted(results[kind].configs, key=lambda one: str(one.name))}
        for name, (kind, _) in resources.items()
    }


def _setting(config: Any) -> dict[str, Any]:
    """A value that was set has its default at the end of the places it could have come from, if there is one."""
    of_default = [one.value for one in config.synonyms if one.source == Source.DEFAULT]
    is_default = config.config_source == Source.DEFAULT
    kind = OTHER_TYPES.get(config.config_type) or ConfigType(config.config_type).name.lower()
    return {
        "type": kind,
        "default": config.value if is_default else of_default[-1] if of_default else None,
        "source": Source(config.config_source).name.lower(),
        "read_only": bool(config.read_only),
    }


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    json.dump(described((host, int(port)), sys.argv[2]), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
