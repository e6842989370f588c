"""Reaching a cluster: addresses, the settings of every client, and what a failed connection means in plain words.

confluent_kafka takes a tenth of a second to import, so it is imported where it is used.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.request import NoAnswer, NotLetIn, connect, receive
from chronik.client.security import in_force, use
from chronik.client.security_settings import given_settings, security_of
from chronik.core.errors import Code
from chronik.wire.versions import SASL_HANDSHAKE

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_PORT = 9092
CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 5.0
LOOK_TIMEOUT_S = 1.0
_NO_MECHANISM = b"?"
METADATA = 3
_TLS_ALERT = b"\x15"
_METADATA = struct.pack(">ihhihi?", 15, METADATA, 4, 1, 0, 0, False)  # of no topic
_HANDSHAKE = struct.pack(">ihhihh1s", 13, SASL_HANDSHAKE, 1, 1, 0, 1, _NO_MECHANISM)


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as pairs; a missing port is Kafka's own, 9092."""
    addresses = []
    for text in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        if not _can_be_host(host) or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ChronikError(f"{text} is not an address", f"write it as HOST:PORT, such as {DEFAULT_BOOTSTRAP}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ChronikError("--bootstrap names no address", f"write it as HOST:PORT, such as {DEFAULT_BOOTSTRAP}")
    return addresses


def written(addresses: Sequence[tuple[str, int]]) -> str:
    """As every client of Kafka reads them."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


def _can_be_host(name: str) -> bool:
    """Whether it can be looked up at all: `a..b` cannot, and the attempt is an error that is no OSError."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def check_reachable(bootstrap: str, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    """Fails at once where librdkafka would try again and again until its timeout."""
    addresses = parse_addresses(bootstrap)
    for host, port in addresses:
        try:
            with connect((host, port), timeout_s / len(addresses)) as connection:
                if in_force().protocol != "PLAINTEXT" or _takes_plain_requests(connection):
                    return
        except NotLetIn as problem:
            raise not_let_in(problem) from None
        except socket.gaierror:
            if len(addresses) == 1:
                raise ChronikError(f"the host name {host} is not known", "check --bootstrap") from None
        except (OSError, NoAnswer):
            continue  # the next address may answer; when none does, the error below names them all
    raise no_answer(bootstrap)


def _takes_plain_requests(connection: socket.socket) -> bool:
    """Whether it does not hang up on one, as it does where it wants TLS or a login. One that takes its time may yet
    answer."""
    try:
        connection.sendall(_METADATA)
        return receive(connection, 1, time.monotonic() + LOOK_TIMEOUT_S) != _TLS_ALERT
    except TimeoutError:
        return True
    except OSError:
        return False


def not_let_in(problem: NotLetIn) -> ChronikError:
    return ChronikError(str(problem), "check --command-config and --kafka")


def no_answer(bootstrap: str) -> ChronikError:
    """Nothing there; or a node that wants another kind of connection, which is looked at."""
    wanted = _wanted(bootstrap) if in_force().protocol == "PLAINTEXT" else None
    if wanted is not None:
        return ChronikError(
            f"the node at {bootstrap} wants {wanted}", "give it with --command-config FILE or --kafka KEY=VALUE"
        )
    return ChronikError(f"no Kafka node answers at {bootstrap}", "start one with `chronik serve`")


def unanswered(bootstrap: str, otherwise: ChronikError) -> ChronikError:
    """Where nothing sensible came back: that the node wants another kind of connection, if it does."""
    return no_answer(bootstrap) if in_force().protocol == "PLAINTEXT" and _wanted(bootstrap) else otherwise


def _wanted(bootstrap: str) -> str | None:
    """What a node that does not answer plain requests wants instead; None where there is none, or it wants nothing."""
    for address in parse_addresses(bootstrap):
        deadline = time.monotonic() + LOOK_TIMEOUT_S
        try:
            with connect(address, LOOK_TIMEOUT_S) as connection:
                # To name a mechanism that does not exist is answered by the names of those that do.
                connection.sendall(_HANDSHAKE)
                answer = receive(connection, 10, deadline)
        except TimeoutError:
            continue
        except ConnectionError:
            return "an encrypted connection (security.protocol=SSL or SASL_SSL)" if _speaks_tls(address) else None
        except OSError:
            continue
        if answer[:1] == _TLS_ALERT:
            return "an encrypted connection (security.protocol=SSL or SASL_SSL)"
        if int.from_bytes(answer[8:10], "big") == Code.UNSUPPORTED_SASL_MECHANISM:
            return "a login (security.protocol=SASL_PLAINTEXT, sasl.mechanism, sasl.jaas.config)"
    return None


def _speaks_tls(address: tuple[str, int]) -> bool:
    """Its certificate does not matter: nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, LOOK_TIMEOUT_S) as connection,
            context.wrap_socket(connection, server_hostname=address[0]),
        ):
            return True
    except OSError:
        return False


def client_settings(bootstrap: str) -> dict[str, Any]:
    """For every client: who we are, and silence: librdkafka's log lines are not for users."""
    quiet = logging.getLogger("chronik.cli.librdkafka")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    return {
        "bootstrap.servers": written(parse_addresses(bootstrap)),
        "client.id": "chronik-cli",
        "log_level": 0,
        "logger": quiet,
    } | in_force().for_librdkafka()


@contextmanager
def plain_errors(bootstrap: str) -> Iterator[None]:
    """Turns what confluent_kafka raises inside the block into ChronikError."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as raised:
        raise explain(raised.args[0], bootstrap) from None
    except UnicodeError:  # which is a ValueError, but about no number
        raise
    except (ValueError, OverflowError) as raised:  # a number that librdkafka does not even send
        raise ChronikError(str(raised), "give a number within that range") from None


def explain(error: KafkaError, bootstrap: str) -> ChronikError:
    """The client's error in plain words: nothing there, or a node that refused."""
    from confluent_kafka import KafkaError

    unreachable = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE)
    if error.code() in unreachable:
        return no_answer(bootstrap)
    if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        return ChronikError(reason(error), "check --command-config and --kafka")
    if error.code() in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE):
        late = ChronikError(f"{bootstrap} does not answer in time", "check that it is a Kafka node, and its log")
        return unanswered(bootstrap, late)
    return RefusedByNode(error.code(), reason(error))


def reason(error: KafkaError) -> str:
    """The error's own words and its name, without the 'Broker:' that librdkafka puts before the words."""
    words = error.str().removeprefix("Broker: ").removeprefix("Local: ").strip()
    return f"{words or 'no reason given'} ({error.name()})"


def complete_topic(incomplete: str) -> list[str]:
    """Topic names for the shell's completion; silence when there is no node, for a prompt is no place for an error."""
    try:
        from chronik.client.admin import ClusterAdmin

        bootstrap = os.environ.get("CHRONIK_BOOTSTRAP", DEFAULT_BOOTSTRAP)
        use(security_of(given_settings(None, ())))
        check_reachable(bootstrap, timeout_s=0.5)
        return [name for name in ClusterAdmin(bootstrap).topic_names() if name.startswith(incomplete)]
    except ChronikError:
        return []
