"""Files and processes of a local cluster that this user may not be allowed to touch, or that a full disk will not take.

`sudo chronik cluster start` once, and the next command finds files of root: it has to say whose they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

from chronik.client.errors import ChronikError


@contextlib.contextmanager
def in_words(path: Path, hint: str = "see that the disk has room and that it can be written to") -> Iterator[None]:
    """What the operating system refuses to do with this file, as ChronikError."""
    try:
        yield
    except PermissionError as problem:
        owner = owner_of(path)
        if owner == _user(os.geteuid()):
            raise ChronikError(
                f"{path} cannot be used: {problem.strerror}", "see its permissions with `ls -l`"
            ) from None
        raise ChronikError(f"{path} belongs to user {owner}: {problem.strerror}", as_user(owner)) from None
    except OSError as problem:
        raise ChronikError(f"{path} cannot be used: {problem.strerror}", hint) from None


def owner_of(path: Path) -> str:
    """The user whose it is; of what is not there or cannot be seen, the user whose the directory is."""
    for each in (path, *path.parents):
        with contextlib.suppress(OSError):
            return _user(os.stat(each).st_uid)
    return "another"


def owner_of_process(pid: int) -> str | None:
    """None where the operating system does not tell, or it has just ended."""
    entry = Path(f"/proc/{pid}")
    return owner_of(entry) if entry.exists() else None


def as_user(name: str | None) -> str:
    """What to do about something that belongs to this user."""
    if name == "root":
        return "run this as root"
    return f"run this as {name or 'the user who started it'}, or as root"


def _user(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def replace(path: Path, text: str, *, is_secret: bool = False) -> None:
    """All or nothing: what was there stays when the disk is full. A secret is for its owner only. Raises OSError."""
    target = path.resolve()  # a link stays a link
    beside = target.with_name(f"{target.name}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if is_secret else 0o666)
        with open(descriptor, "w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            _look_alike(beside, target)
            if is_secret:
                beside.chmod(0o600)
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _look_alike(path: Path, model: Path) -> None:
    """The same rights; and the same owner, so that what root changes can still be read by its owner."""
    shutil.copymode(model, path)
    owner = model.stat()
    with contextlib.suppress(PermissionError):  # only root may give files away
        os.chown(path, owner.st_uid, owner.st_gid)


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
    """Held while the nodes of a cluster are being changed, by one process at a time. Raises ChronikError.

    The directory itself is locked: there is no lock file to be left behind. It is made if it is not there, and removed
    again if nothing was put into it.
    """
    directory = Path(os.path.abspath(path))
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    with in_words(directory, "give another --data-dir"):
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor, directory)
        try:
            yield
        finally:
            for each in missing:
                with contextlib.suppress(OSError):  # it is not empty
                    each.rmdir()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one before may have removed it between our opening and our locking it.
        is_ours = directory.exists() and os.path.samestat(os.fstat(descriptor), os.stat(directory))
    except BlockingIOError:
        is_ours = False
    if not is_ours:
        raise ChronikError(
            f"another `chronik cluster start`, `add` or `remove` is at work in {directory}",
            "try again when it has ended",
        )
