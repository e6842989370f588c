"""From a client's name to the client. One that is not installed is an error with the way to install it."""

from __future__ import annotations

import importlib
import warnings

from chronik.verify.clients.protocol import TransactionalClient
from chronik.verify.errors import RunCannotStart
from chronik.verify.settings import ClientName

_MODULES = {
    ClientName.KAFKA_PYTHON: ("kafka", "chronik.verify.clients.kafka_python", "KafkaPython", "kafka-python"),
    ClientName.CONFLUENT: ("confluent_kafka", "chronik.verify.clients.confluent", "Confluent", "confluent-kafka"),
    ClientName.AIOKAFKA: ("aiokafka", "chronik.verify.clients.aiokafka_client", "AioKafka", "'chronik[clients]'"),
}


def open_client(name: ClientName, bootstrap: str) -> TransactionalClient:
    """Raises RunCannotStart when it is not installed."""
    library, module, kind, package = _MODULES[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library thinks of its own code is not for our users
            importlib.import_module(library)
    except ImportError as problem:
        raise RunCannotStart(f"the client {name} cannot be used: {problem}", f"pip install {package}") from problem
    made: TransactionalClient = getattr(importlib.import_module(module), kind)(bootstrap)
    return made


def another_than(name: ClientName) -> ClientName:
    """For a second reader: what one client cannot see may be its own fault."""
    return ClientName.KAFKA_PYTHON if name is ClientName.CONFLUENT else ClientName.CONFLUENT
