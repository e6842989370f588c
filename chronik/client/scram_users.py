"""Users of SCRAM as the command line has them (`--add-user NAME=@FILE`, `--add-scram`), and their salted passwords."""

from __future__ import annotations

import base64
import binascii
import getpass
import os
import re
import sys
from collections.abc import Sequence

from chronik.client.errors import ChronikError
from chronik.core.access.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS, ScramMechanism
from chronik.core.machines.metadata.access_changes import ScramUpsertion

PASSWORD_VARIABLE = "CHRONIK_USER_PASSWORD"
SALT_BYTES = 20
_SCRAM = re.compile(r"\s*(SCRAM-SHA-256|SCRAM-SHA-512)\s*=\s*\[(.*)\]\s*", re.DOTALL)


def first_users(add_user: Sequence[str], add_scram: Sequence[str]) -> tuple[ScramUpsertion, ...]:
    """Raises ChronikError, never with a password in it."""
    made = [each for text in add_user for each in _of_add_user(text)]
    return (*made, *(_of_add_scram(text) for text in add_scram))


def _of_add_user(text: str) -> list[ScramUpsertion]:
    """NAME=PASSWORD, NAME=@FILE, or NAME alone: then it is in CHRONIK_USER_PASSWORD, or asked for."""
    name, equals, word = text.partition("=")
    if not name:
        raise ChronikError("--add-user wants a name", "write it as --add-user NAME=@FILE")
    if not equals:
        password = asked_password(name)
    elif word.startswith("@"):
        password = password_in(word[1:])
    else:
        password = word
    if not password:
        raise ChronikError(f"the password of {name} is empty")
    return [salted(name, mechanism, password) for mechanism in SCRAM_MECHANISMS.values()]


def password_in(path: str) -> str:
    """The first line of a file. Raises ChronikError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ChronikError(f"the password in {path} is not UTF-8") from None
    except OSError as problem:
        raise ChronikError(f"the password in {path} cannot be read: {problem.strerror}") from None


def asked_password(name: str) -> str:
    """Of the environment, else of the terminal. Raises ChronikError where there is neither."""
    given = os.environ.get(PASSWORD_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise ChronikError(
            f"there is no password for {name}", f"give it in a file (NAME=@FILE) or in {PASSWORD_VARIABLE}"
        )
    password = getpass.getpass(f"Password of {name}: ")
    if getpass.getpass("Once more: ") != password:
        raise ChronikError("the two are not the same")
    return password


def salted(
    name: str, mechanism: ScramMechanism, password: str, iterations: int = ITERATIONS_MIN, salt: bytes | None = None
) -> ScramUpsertion:
    """What is sent and stored instead of the password."""
    import hashlib

    grains = os.urandom(SALT_BYTES) if salt is None else salt
    key = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), grains, iterations)
    return ScramUpsertion(name, int(mechanism), iterations, grains, key)


def _of_add_scram(text: str) -> ScramUpsertion:
    """As Kafka's kafka-storage has it: SCRAM-SHA-256=[name=alice,password=...,iterations=8192,salt="..."]."""
    found = _SCRAM.fullmatch(text)
    if found is None:
        raise ChronikError(
            "--add-scram cannot be read", "write it as --add-scram 'SCRAM-SHA-512=[name=alice,password=...]'"
        )
    mechanism = SCRAM_MECHANISMS[found[1]]
    options: dict[str, str] = {}
    for part in found[2].split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in ("name", "password", "iterations", "salt", "saltedpassword"):
            raise ChronikError(
                "--add-scram cannot be read", "it may have name, password, saltedpassword, salt and iterations"
            )
        options[key] = value.strip('"')
    name, iterations = options.get("name", ""), options.get("iterations", str(ITERATIONS_MIN))
    if not name or ("password" in options) == ("saltedpassword" in options):
        raise ChronikError("--add-scram needs a name, and one of password and saltedpassword")
    if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise ChronikError(f"iterations of --add-scram must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    salt = _decoded("salt", options["salt"]) if "salt" in options else None
    if "password" in options:
        return salted(name, mechanism, options["password"], int(iterations), salt)
    if salt is None:
        raise ChronikError("a saltedpassword of --add-scram needs the salt that it was made with")
    key = _decoded("saltedpassword", options["saltedpassword"])
    return ScramUpsertion(name, int(mechanism), int(iterations), salt, key)


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ChronikError(f"{name} of --add-scram is not base64") from None
