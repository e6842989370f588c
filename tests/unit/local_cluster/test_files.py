"""Files of a cluster: replaced all or nothing, changed by one at a time, and named with their owner."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chronik.client.errors import ChronikError
from chronik.local_cluster.files import held, in_words, owner_of, owner_of_process, replace
from tests.unit.local_cluster.other_users import as_somebody, process_of_another

SECRET_OF_ROOT = Path("/etc/shadow")


@contextmanager
def full_disk() -> Iterator[None]:
    """No file gets longer than a few bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_file_that_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "chronik.toml"
    path.write_text("node.id = 1\n")

    with full_disk(), pytest.raises(OSError, match="File too large"):
        replace(path, "node.id = 1\nnum.partitions = 3\n")

    assert path.read_text() == "node.id = 1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_has_the_rights_of_the_old_one_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "real.toml", tmp_path / "chronik.toml"
    path.write_text("old\n")
    path.chmod(0o640)
    link.symlink_to(path)

    replace(link, "new\n")

    assert link.is_symlink()
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_who_changes_a_cluster_is_alone_and_the_next_one_is_told(tmp_path: Path) -> None:
    with held(str(tmp_path)):
        with (
            pytest.raises(ChronikError, match=r"another `chronik cluster start`, `add` or `remove`"),
            held(str(tmp_path)),
        ):
            pass
        assert tmp_path.exists()

    with held(str(tmp_path)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_made_for_nothing_is_removed_again(tmp_path: Path) -> None:
    with held(str(tmp_path / "deep" / "er")):
        assert (tmp_path / "deep" / "er").is_dir()
    assert list(tmp_path.iterdir()) == []

    with held(str(tmp_path / "used")):
        (tmp_path / "used" / "cluster.json").write_text("{}")
    assert (tmp_path / "used" / "cluster.json").exists()


def test_a_file_of_another_user_is_named_with_its_owner() -> None:
    with as_somebody(), pytest.raises(ChronikError) as caught, in_words(SECRET_OF_ROOT):
        SECRET_OF_ROOT.read_bytes()

    assert str(caught.value) == "/etc/shadow belongs to user root: Permission denied; run this as root"


def test_a_file_of_our_own_that_we_may_not_read_is_no_matter_of_users(tmp_path: Path) -> None:
    words = r"/mine cannot be used: Permission denied; see its permissions"
    with pytest.raises(ChronikError, match=words), in_words(tmp_path / "mine"):
        raise PermissionError(13, "Permission denied")


def test_a_disk_that_is_full_is_said_with_what_helps(tmp_path: Path) -> None:
    words = r"/mine cannot be used: No space left on device; see that the disk has room"
    with pytest.raises(ChronikError, match=words), in_words(tmp_path / "mine"):
        raise OSError(28, "No space left on device")


def test_the_owner_of_what_cannot_be_seen_is_that_of_its_directory(tmp_path: Path) -> None:
    assert owner_of(tmp_path / "not" / "there") == owner_of(tmp_path)


def test_the_owner_of_a_process_is_known_while_it_lives() -> None:
    assert owner_of_process(os.getpid()) == owner_of(Path("/proc/self"))
    with process_of_another() as pid:
        assert owner_of_process(pid) not in (None, owner_of_process(os.getpid()))
    assert owner_of_process(2**22 + 1) is None
