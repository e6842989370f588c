"""What makes a cluster on this machine a secured one: its authority, its nodes' keys, its administrator, settings.

    DIR/security/ca.pem               whose certificates nodes and clients believe
    DIR/security/ca.key               the authority's key: makes certificates for further nodes
    DIR/security/node-1.pem           node 1's key and certificate
    DIR/security/admin.password       what the administrator logs in with
    DIR/security/admin.properties     the same, for Kafka's tools and `chronik --command-config`
    DIR/security/admin.conf           the same, for librdkafka (`kcat -F`)

All of it is for its owner only. Nodes speak TLS among each other, with certificates on both sides, on a listener of
their own; clients come over TLS and log in by SCRAM. ACLs count: only the administrator may do anything at first.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chronik.client.security import SCRAM_256, SCRAM_512, PemStore, Security
from chronik.client.security_settings import read_properties, security_of
from chronik.local_cluster.authority import ORGANIZATION, CertificateAuthority, write_secret

FOLDER = "security"
ADMIN = "admin"
CLIENTS, NODES = "CLIENTS", "NODES"
NODE_IDS_MAX = 32
"""The principals of so many nodes are super users from the start: to add one, no other is restarted."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD_BYTES = 24


@dataclass(frozen=True)
class ClusterSecurity:
    """The files of a secured cluster."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def password_file(self) -> Path:
        return self.folder / f"{ADMIN}.password"

    @property
    def properties(self) -> Path:
        """Kafka's client properties of the administrator."""
        return self.folder / f"{ADMIN}.properties"

    @property
    def is_there(self) -> bool:
        return self.properties.exists()

    def admin(self) -> Security:
        """How its administrator is let in. Raises ChronikError."""
        return security_of(read_properties(str(self.properties)))

    def make(self, node_ids: Sequence[int]) -> None:
        """All files. Raises ChronikError, OSError."""
        authority = CertificateAuthority.new("chronik cluster")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        write_secret(self.authority, authority.certificate_pem())
        write_secret(self.folder / "ca.key", authority.key_pem())
        for node_id in node_ids:
            self._write_node(authority, node_id)
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        write_secret(self.password_file, password + "\n")
        write_client_files(self.folder, ADMIN, password, self.authority)

    def add_node(self, node_id: int) -> None:
        """The key of a further node. Raises ChronikError, OSError."""
        self._write_node(CertificateAuthority.read(self.folder / "ca.key", self.authority), node_id)

    def _write_node(self, authority: CertificateAuthority, node_id: int) -> None:
        write_secret(self._store(node_id), authority.key_store(f"node-{node_id}"))

    def _store(self, node_id: int) -> Path:
        return self.folder / f"node-{node_id}.pem"

    def node_settings(self, node_id: int) -> dict[str, str]:
        """Of one node, but for its listeners."""
        nodes = [f"User:CN=node-{each},O={ORGANIZATION}" for each in range(1, NODE_IDS_MAX + 1)]
        return {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{NODES}:SSL",
            "inter.broker.listener.name": NODES,
            "sasl.enabled.mechanisms": f"{SCRAM_512},{SCRAM_256}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store(node_id)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            "ssl.client.auth": "required",
            "http.basic.auth.enable": "true",
            "http.open.paths": "/metrics,/health,/ready",
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join([f"User:{ADMIN}", *nodes]),
        }


def listeners(host: str, port: int, nodes_port: int) -> str:
    return f"{CLIENTS}://{host}:{port},{NODES}://{host}:{nodes_port}"


def client_properties(user: str, password: str, authority: Path, mechanism: str = SCRAM_512) -> dict[str, str]:
    """Kafka's client properties of a user."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="{quoted}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def write_client_files(folder: Path, user: str, password: str, authority: Path) -> None:
    """For Kafka's tools and ours, and for librdkafka. Raises OSError."""
    java = client_properties(user, password, authority)
    lines = [f"{key}={value.replace(chr(92), chr(92) * 2)}" for key, value in java.items()]
    write_secret(folder / f"{user}.properties", "\n".join(lines) + "\n")
    native = Security(
        "SASL_SSL", PemStore(str(authority)), mechanism=SCRAM_512, username=user, password=password
    ).for_librdkafka()
    write_secret(folder / f"{user}.conf", "".join(f"{key}={value}\n" for key, value in native.items()))
