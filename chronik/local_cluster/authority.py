"""A certificate authority for a cluster on this machine, and the keys that it vouches for: all in PEM files.

It needs the package `cryptography`, which is imported here and nowhere else: `pip install 'chronik[secure]'`.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chronik.client.errors import ChronikError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, DNSName, IPAddress, Name

ORGANIZATION = "chronik"
AUTHORITY_YEARS, KEY_YEARS = 10, 2
FOR_OWNER = 0o600
_YEAR = datetime.timedelta(days=365)
_EARLIER = datetime.timedelta(minutes=5)  # clocks differ


class CertificateAuthority:
    """Vouches for keys. Its certificate is what nodes and clients trust."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def new(cls, common_name: str) -> CertificateAuthority:
        """Raises ChronikError where cryptography is not installed."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as problem:
            raise ChronikError(
                f"certificates are made with cryptography, which is not installed ({problem})",
                "pip install 'chronik[secure]'",
            ) from None
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        made = _begun(name, name, key, AUTHORITY_YEARS).add_extension(x509.BasicConstraints(True, 0), critical=True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = made.add_extension(usage, critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(key, made.sign(key, hashes.SHA256()))

    @classmethod
    def read(cls, key: Path, certificate: Path) -> CertificateAuthority:
        """Raises ChronikError, OSError."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as problem:
            raise ChronikError(
                f"certificates are made with cryptography, which is not installed ({problem})",
                "pip install 'chronik[secure]'",
            ) from None
        found = load_pem_private_key(key.read_bytes(), None)
        return cls(found, x509.load_pem_x509_certificate(certificate.read_bytes()))  # type: ignore[arg-type]

    def certificate_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        return _pem(self._key)

    def key_store(self, common_name: str, hosts: Sequence[str] = ("localhost", "127.0.0.1", "::1")) -> bytes:
        """A new key and its certificate, for servers and clients of these names, as PEM."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        made = _begun(_name(common_name), self._certificate.subject, key, KEY_YEARS)
        made = made.add_extension(x509.BasicConstraints(False, None), critical=True)
        names = [_general_name(host) for host in hosts]
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        made = made.add_extension(both, critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(identifier, critical=False)
        certificate = made.sign(self._key, hashes.SHA256())
        return _pem(key) + certificate.public_bytes(Encoding.PEM) + self.certificate_pem()


def _name(common_name: str) -> Name:
    """Java writes it the other way round: CN=node-1,O=chronik."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _begun(subject: Name, issuer: Name, key: EllipticCurvePrivateKey, years: int) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + years * _YEAR)
    )


def _general_name(host: str) -> DNSName | IPAddress:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_secret(path: Path, content: bytes | str) -> None:
    """A new file that only its owner may read, from its first byte on. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FOR_OWNER)
    with open(descriptor, "wb") as out:
        os.fchmod(descriptor, FOR_OWNER)  # one that was there may have been open to others
        out.write(content.encode() if isinstance(content, str) else content)
