"""Certificates for tests, made by the openssl program: an authority, and keys that it vouches for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl program")


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """Vouches for keys. Its own certificate is what others trust."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = folder / f"{name}.key"
        self.certificate = folder / f"{name}.pem"
        self._made = 0
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/O=chronik/CN={name}", "-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def key_store(self, common_name: str, names: str = NAMES) -> Path:
        """A file with a new key and its certificate, as PEM."""
        self._made += 1
        base = self._folder / f"{self._key.stem}-{self._made}"
        key, request, certificate = (base.with_suffix(suffix) for suffix in (".key", ".csr", ".crt"))
        extensions = base.with_suffix(".ext")
        extensions.write_text(names)
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/O=chronik/CN={common_name}", "-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(certificate)),
        )
        store = base.with_suffix(".store.pem")
        store.write_text(key.read_text() + certificate.read_text())
        return store

    def node_settings(self, common_name: str, client_auth: str = "required") -> dict[str, str]:
        """Of a node whose listener, and whose connections to other nodes, are encrypted."""
        return {
            "listener.security.protocol.map": "PLAINTEXT:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store(common_name)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificate),
            "ssl.client.auth": client_auth,
            "super.users": "User:CN=node,O=chronik",
        }
