"""From Kafka's client properties (`security.protocol`, `sasl.jaas.config`, ...) to a `Security`.

The names are those of Kafka's Java client; librdkafka's (`sasl.username`, `ssl.ca.location`) are taken too. A name of
ours that is not known is an error: a setting misspelt and ignored would connect in another way than its user thinks.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from chronik.client.errors import ChronikError
from chronik.client.security import MECHANISMS, OAUTHBEARER, PROTOCOLS, PemStore, Security
from chronik.client.tokens import TokenSource
from chronik.core.access.jaas import jaas_options
from chronik.core.config.definitions import BadConfig
from chronik.core.config.parse import parse_properties

FILE_VARIABLE = "CHRONIK_COMMAND_CONFIG"
KEY_VARIABLES = "CHRONIK_KAFKA_"
PREFIXES = ("security.", "ssl.", "sasl.")
_CONVERT = {
    "ssl.keystore": "openssl pkcs12 -in FILE -nodes -out keystore.pem (JKS: `keytool -importkeystore` to PKCS12 first)",
    "ssl.truststore": "keytool -list -rfc -keystore FILE > truststore.pem",
}
_KNOWN = (
    "security.protocol", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", "sasl.mechanism",
    "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope",
    # librdkafka's names
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
    "ssl.key.pem", "sasl.mechanisms", "sasl.username", "sasl.password", "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
)  # fmt: skip
# About the insides of a client, or of a store that is not PEM.
_WITHOUT_MEANING = (
    "ssl.protocol", "ssl.provider", "ssl.cipher.suites", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation", "ssl.engine.factory.class", "ssl.truststore.password",
    "ssl.keystore.password", "security.providers", "sasl.oauthbearer.method", "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class", "sasl.login.class",
)  # fmt: skip
_WITHOUT_MEANING_PREFIXES = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.")


def read_properties(path: str) -> dict[str, str]:
    """A file of Kafka's client properties. Raises ChronikError, without repeating what is in it."""
    try:
        with open(path, encoding="utf-8") as source:
            return parse_properties(source.read())
    except OSError as problem:
        raise ChronikError(f"the config file {path} cannot be read: {problem.strerror}") from problem
    except (UnicodeDecodeError, BadConfig):
        raise ChronikError(f"the config file {path} is not well formed", "it is key=value lines in UTF-8") from None


def from_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """CHRONIK_KAFKA_SASL_PASSWORD is `sasl.password`; what begins otherwise is not for us."""
    found = {}
    for name, value in environment.items():
        key = name.removeprefix(KEY_VARIABLES).lower().replace("_", ".")
        if name.startswith(KEY_VARIABLES) and key.startswith(PREFIXES):
            found[key] = value
    return found


def given_settings(file: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """What the file says, else the one in CHRONIK_COMMAND_CONFIG; over it CHRONIK_KAFKA_KEY, and over that the pairs.
    Raises ChronikError."""
    path = file or os.environ.get(FILE_VARIABLE)
    settings = read_properties(path) if path else {}
    return settings | from_environment() | pairs_given(pairs)


def pairs_given(pairs: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE texts; Spark's `kafka.` before a key is taken too. Raises ChronikError."""
    settings = {}
    for text in pairs:
        key, equals, value = text.partition("=")
        key = key.strip().removeprefix("kafka.")
        if not equals or not key:
            raise ChronikError(f"--kafka {hidden(text)} is not KEY=VALUE", "write it as --kafka sasl.mechanism=PLAIN")
        settings[key] = value
    return settings


def security_of(properties: Mapping[str, str]) -> Security:
    """Settings about anything else are for others. Raises ChronikError, never with a secret in it."""
    given = {name: value for name, value in properties.items() if name.startswith(PREFIXES)}
    _check_names(given)
    protocol = given.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ChronikError(f"security.protocol is {protocol}", f"it may be {', '.join(PROTOCOLS)}")
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", "", "none"):
        raise ChronikError(f"ssl.endpoint.identification.algorithm is {algorithm}", "it may be https, or empty")
    versions = {version.strip() for version in given.get("ssl.enabled.protocols", "").split(",")} - {""}
    if versions - {"TLSv1.2", "TLSv1.3"}:
        raise ChronikError("ssl.enabled.protocols has others than TLSv1.2 and TLSv1.3", "no others are safe")
    is_encrypted = protocol.endswith("SSL")
    certificate, key = _own(given) if is_encrypted else (None, None)
    security = Security(
        protocol=protocol,
        authorities=_authorities(given) if is_encrypted else None,
        certificate=certificate,
        key=key,
        key_password=given.get("ssl.key.password"),
        is_name_checked=algorithm == "https",
    )
    return _with_login(security, given) if protocol.startswith("SASL") else security


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if name in _KNOWN or name in _WITHOUT_MEANING or name.startswith(_WITHOUT_MEANING_PREFIXES):
            continue
        near = difflib.get_close_matches(name, _KNOWN, 1)
        raise ChronikError(f"no setting {name}", f"is {near[0]} meant?" if near else "see docs/security.md")


def _authorities(given: Mapping[str, str]) -> PemStore | None:
    text = given.get("ssl.truststore.certificates") or given.get("ssl.ca.pem")
    if text:
        return PemStore(text=text)
    file = given.get("ssl.truststore.location") or given.get("ssl.ca.location")
    return None if not file else _pem_file(file, "ssl.truststore", given.get("ssl.truststore.type"))


def _own(given: Mapping[str, str]) -> tuple[PemStore | None, PemStore | None]:
    """Certificate and key."""
    chain = given.get("ssl.keystore.certificate.chain") or given.get("ssl.certificate.pem")
    key = given.get("ssl.keystore.key") or given.get("ssl.key.pem")
    if chain or key:
        if not chain or not key:
            raise ChronikError("ssl.keystore.key and ssl.keystore.certificate.chain go together", "give both")
        return PemStore(text=chain), PemStore(text=key)
    store = given.get("ssl.keystore.location")
    if store:
        return _pem_file(store, "ssl.keystore", given.get("ssl.keystore.type")), None
    certificate, key_file = given.get("ssl.certificate.location"), given.get("ssl.key.location")
    if not certificate:
        return None, None
    return PemStore(certificate), None if not key_file else PemStore(key_file)


def _pem_file(path: str, store: str, kind: str | None) -> PemStore:
    """Raises ChronikError for one that is in another form, or cannot be read."""
    named = (kind or "").strip().upper()
    if named not in ("", "PEM"):
        raise _not_pem(f"{store}.type is {named}", store, path)
    try:
        with open(path, "rb") as file:
            head = file.read(64 * 1024)
    except OSError as problem:
        raise ChronikError(f"{store}.location {path} cannot be read: {problem.strerror}") from problem
    if b"-----BEGIN " not in head:
        form = "JKS" if head.startswith(b"\xfe\xed\xfe\xed") else "PKCS12" if head.startswith(b"\x30") else "not PEM"
        raise _not_pem(f"{path} is {form}", store, path)
    return PemStore(path)


def _not_pem(what: str, store: str, path: str) -> ChronikError:
    return ChronikError(f"{what}, and only PEM can be read", f"convert it: {_CONVERT[store].replace('FILE', path)}")


def _with_login(security: Security, given: Mapping[str, str]) -> Security:
    mechanism = (given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI").strip().upper()
    if mechanism not in MECHANISMS:
        raise ChronikError(f"sasl.mechanism is {mechanism}", f"it may be {', '.join(MECHANISMS)}")
    said: Mapping[str, str] = {}
    if line := given.get("sasl.jaas.config"):
        try:
            said = jaas_options(line)
        except ValueError as problem:
            raise ChronikError(f"sasl.jaas.config cannot be read: {problem}") from None
    if mechanism == OAUTHBEARER:
        return replace(security, mechanism=mechanism, token=_token_source(given, said))
    username = given.get("sasl.username") or said.get("username")
    password = given.get("sasl.password") or said.get("password")
    if not username or password is None:
        raise ChronikError(
            f"{mechanism} needs a name and a password",
            "give sasl.jaas.config with username and password, or sasl.username and sasl.password",
        )
    return replace(security, mechanism=mechanism, username=username, password=password)


def _token_source(given: Mapping[str, str], said: Mapping[str, str]) -> TokenSource:
    url = given.get("sasl.oauthbearer.token.endpoint.url", "")
    parts = urlsplit(url)
    if parts.scheme == "file":
        return TokenSource(file=unquote(parts.path))
    if parts.scheme not in ("http", "https"):
        raise ChronikError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url",
            "give file:///PATH of a token, or the address of an endpoint that gives one",
        )
    prefix = "sasl.oauthbearer."
    client_id = (
        given.get(f"{prefix}client.credentials.client.id")
        or given.get(f"{prefix}client.id")
        or said.get("clientId")
        or ""
    )
    secret = (
        given.get(f"{prefix}client.credentials.client.secret")
        or given.get(f"{prefix}client.secret")
        or said.get("clientSecret")
        or ""
    )
    if not client_id or not secret:
        raise ChronikError(
            "OAUTHBEARER needs an id and a secret", 'give clientId="..." and clientSecret="..." in sasl.jaas.config'
        )
    authorities = given.get("ssl.truststore.location") or given.get("ssl.ca.location")
    return TokenSource(
        endpoint=url,
        client_id=client_id,
        client_secret=secret,
        scope=given.get(f"{prefix}scope") or said.get("scope"),
        ca_file=authorities or None,
    )


def kafka_settings(security: Security) -> dict[str, str]:
    """The same again under Kafka's names: for what is handed to another program."""
    if security.protocol == "PLAINTEXT":
        return {}
    settings = {"security.protocol": security.protocol}
    for name, store in (("ca", security.authorities), ("certificate", security.certificate), ("key", security.key)):
        if store is not None:
            settings[f"ssl.{name}." + ("location" if store.file else "pem")] = store.file or store.text or ""
    if security.key_password is not None:
        settings["ssl.key.password"] = security.key_password
    if not security.is_name_checked:
        settings["ssl.endpoint.identification.algorithm"] = ""
    if security.mechanism is not None:
        settings["sasl.mechanism"] = security.mechanism
    if security.username is not None:
        settings |= {"sasl.username": security.username, "sasl.password": security.password or ""}
    if (source := security.token) is not None:
        settings["sasl.oauthbearer.token.endpoint.url"] = source.endpoint or f"file://{source.file}"
        settings |= {"sasl.oauthbearer.client.id": source.client_id} if source.client_id else {}
        settings |= {"sasl.oauthbearer.client.secret": source.client_secret} if source.client_secret else {}
        settings |= {"sasl.oauthbearer.scope": source.scope} if source.scope else {}
    return settings


def hidden(text: str) -> str:
    """What a user typed, without what may be a secret: for errors."""
    return re.sub(r"(?i)((?:password|secret|jaas\.config|\.key|\.pem)\s*=).*", r"\1...", text)
