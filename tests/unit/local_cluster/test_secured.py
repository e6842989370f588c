"""The files of a secured cluster: for their owner only, and what they say is what lets its administrator in."""

from __future__ import annotations

import ssl
from pathlib import Path

from chronik.client.security_settings import read_properties, security_of
from chronik.local_cluster.secured import ClusterSecurity, client_properties, write_client_files


def made(folder: Path) -> ClusterSecurity:
    security = ClusterSecurity(folder / "security")
    security.make([1, 2])
    return security


def test_all_files_are_for_their_owner_only(tmp_path: Path) -> None:
    security = made(tmp_path)
    security.add_node(3)
    assert security.folder.stat().st_mode & 0o777 == 0o700
    names = {file.name: file.stat().st_mode & 0o777 for file in security.folder.iterdir()}
    files = "ca.pem ca.key node-1.pem node-2.pem node-3.pem admin.password admin.properties admin.conf"
    assert names == dict.fromkeys(files.split(), 0o600)


def test_the_administrators_file_has_its_password_and_the_authority(tmp_path: Path) -> None:
    security = made(tmp_path)
    admin = security.admin()
    assert (admin.protocol, admin.mechanism, admin.username) == ("SASL_SSL", "SCRAM-SHA-512", "admin")
    assert admin.password == security.password_file.read_text().strip()
    assert made(tmp_path / "other").admin().password != admin.password
    native = dict(line.split("=", 1) for line in (security.folder / "admin.conf").read_text().splitlines())
    assert native == admin.for_librdkafka()


def test_each_node_has_a_certificate_of_its_own_that_the_authority_vouches_for(tmp_path: Path) -> None:
    security = made(tmp_path)
    for node_id in (1, 2):
        settings = security.node_settings(node_id)
        context = ssl.create_default_context(cafile=settings["ssl.truststore.location"])
        context.load_cert_chain(settings["ssl.keystore.location"])
        assert f"User:CN=node-{node_id},O=chronik" in settings["super.users"].split(";")
        assert "admin.password" not in str(settings)


def test_a_password_with_quotes_and_backslashes_survives_the_files(tmp_path: Path) -> None:
    word = 'a"b\\c;d=e '
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    write_client_files(tmp_path, "ann", word.strip(), tmp_path / "ca.pem")
    found = security_of(read_properties(str(tmp_path / "ann.properties")))
    assert (found.username, found.password) == ("ann", word.strip())
    assert security_of(client_properties("ann", word, tmp_path / "ca.pem")).password == word
