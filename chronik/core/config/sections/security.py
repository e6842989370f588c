"""How connections are encrypted, and who is at their other end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronik.core.access.acls import parse_super_users
from chronik.core.access.node_principals import NodePrincipalRules, parse_node_principals
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.ssl_principal import mapper_of
from chronik.core.config.definitions import BOOLEAN, LIST, STRING, BadConfig, Section, one_of, setting, some_of

PEM = "PEM"
# What is secret, or too long to be shown: in no section.
KEY, CHAIN, AUTHORITIES = "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"
KEY_PASSWORD = "ssl.key.password"
PEM_SETTINGS = frozenset((KEY, CHAIN, AUTHORITIES, KEY_PASSWORD))
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CONVERT = {
    "ssl.keystore": "openssl pkcs12 -in FILE -nodes -out keystore.pem",
    "ssl.truststore": "keytool -list -rfc -keystore FILE > truststore.pem",
}


@dataclass(frozen=True, slots=True)
class PemSettings:
    """Key and certificates that stand in settings, and not in files. Its text hides them."""

    key: str | None = field(default=None, repr=False)
    chain: str | None = field(default=None, repr=False)
    authorities: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, lines: Mapping[str, str]) -> PemSettings:
        return cls(lines.get(KEY), lines.get(CHAIN), lines.get(AUTHORITIES), lines.get(KEY_PASSWORD))


@dataclass(frozen=True, slots=True)
class SecurityConfig(Section):
    """How connections are encrypted, and who is at their other end."""

    ssl_keystore_type: str = setting(STRING, "JKS", "The form of the key store: PEM, no other can be read.")
    ssl_keystore_location: str | None = setting(
        STRING, None, "File with the node's private key and its certificates, as PEM."
    )
    ssl_truststore_type: str = setting(STRING, "JKS", "The form of the trust store: PEM, no other can be read.")
    ssl_truststore_location: str | None = setting(
        STRING, None, "File with the certificates of the authorities that are trusted, as PEM."
    )
    ssl_client_auth: str = setting(
        STRING,
        "none",
        "Whether clients must show a certificate: required, requested (they may) or none.",
        one_of("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        LIST, ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are spoken.", some_of("TLSv1.2", "TLSv1.3")
    )
    ssl_cipher_suites: tuple[str, ...] = setting(
        LIST, (), "The cipher suites of TLS 1.2, by OpenSSL's names; its own choice if empty."
    )
    ssl_endpoint_identification_algorithm: str = setting(
        STRING,
        "https",
        "Whether the certificate of another node must have the name by which it is reached: https, or empty for no.",
        one_of("https", ""),
    )
    ssl_principal_mapping_rules: str = setting(
        STRING, "DEFAULT", "How the name in a client's certificate becomes that of its principal."
    )
    super_users: str = setting(
        STRING, "", "Principals that may do everything, separated by semicolons; the nodes must be among them."
    )
    chronik_node_principals: str = setting(
        STRING,
        "",
        "Which principal may be which node: ID=TYPE:NAME, separated by semicolons, or * for every super user; if empty,"
        " the one that first registered with the id.",
    )
    authorizer_class_name: str = setting(
        STRING,
        "",
        "Kafka's StandardAuthorizer, for access by ACLs; without it everything is allowed.",
        one_of("", STANDARD),
    )
    allow_everyone_if_no_acl_found: bool = setting(
        BOOLEAN, False, "Whether everything is allowed to what no ACL is about."
    )

    @property
    def super_principals(self) -> frozenset[KafkaPrincipal]:
        return parse_super_users(self.super_users)

    @property
    def node_principals(self) -> NodePrincipalRules:
        return parse_node_principals(self.chronik_node_principals)

    @property
    def identifies_clients(self) -> bool:
        """Whether a client's certificate says who it is."""
        return self.ssl_client_auth != "none"

    def check(self) -> None:
        for store, kind, location in (
            ("ssl.keystore", self.ssl_keystore_type, self.ssl_keystore_location),
            ("ssl.truststore", self.ssl_truststore_type, self.ssl_truststore_location),
        ):
            if location is not None and kind.upper() != PEM:
                raise BadConfig(
                    f"{store}.type",
                    f"{store}.type = {kind}: only PEM can be read. Convert {location} with `{_CONVERT[store]}`, and set"
                    f" {store}.location to the result and {store}.type to PEM",
                )
        try:
            _ = mapper_of(self.ssl_principal_mapping_rules)
        except ValueError as problem:
            raise BadConfig("ssl.principal.mapping.rules", f"ssl.principal.mapping.rules: {problem}") from problem
        try:
            _ = self.super_principals
        except ValueError as problem:
            raise BadConfig("super.users", f"super.users: {problem}") from problem
        try:
            _ = self.node_principals
        except ValueError as problem:
            raise BadConfig("chronik.node.principals", f"chronik.node.principals: {problem}") from problem

    def check_ssl(self, *, is_alone: bool, pem: PemSettings) -> None:
        """What a node with an SSL listener must have. Raises BadConfig."""
        has_authorities = self.ssl_truststore_location is not None or pem.authorities is not None
        if (pem.key is None) != (pem.chain is None):
            raise BadConfig(KEY, f"{KEY} and {CHAIN} go together: one of them is missing")
        for location, given, name in (
            (self.ssl_keystore_location, pem.key, KEY),
            (self.ssl_truststore_location, pem.authorities, AUTHORITIES),
        ):
            if location is not None and given is not None:
                raise BadConfig(name, f"{name} and the location of a file are both set: one of them is enough")
        if self.ssl_keystore_location is None and pem.key is None:
            raise BadConfig("ssl.keystore.location", "ssl.keystore.location is missing: an SSL listener needs its key")
        if self.identifies_clients and not has_authorities:
            raise BadConfig(
                "ssl.truststore.location",
                f"ssl.truststore.location is missing: ssl.client.auth = {self.ssl_client_auth} needs certificates to"
                " trust",
            )
        if is_alone:
            return
        if not has_authorities:
            raise BadConfig("ssl.truststore.location", "ssl.truststore.location is missing: nodes check each other")
        if self.identifies_clients and not self.super_principals:
            raise BadConfig(
                "super.users",
                "super.users is missing: it must name the principals of the nodes' certificates, or no node would take"
                " another for one",
            )
