"""How `chronik` ends when the world around it is not as it should be: one line and an exit code, never a traceback."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, COMMAND_SECONDS_MAX, Chronik, Result

TOO_LONG = "x" * 64  # a part of a host name has 63 letters at most
NO_TEXT = "\"$(printf '\\377')\""


def run_in_shell(chronik: Chronik, words: str, folder: Path) -> Result:
    """A program of its own, as a shell starts it: words may end in redirections."""
    command = f"exec {shlex.join(COMMAND)} {words}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=chronik.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("topic list --bootstrap a..b:9092", 2, "a..b:9092 is not an address"),
        (f"topic list --bootstrap {TOO_LONG}:9092", 2, "is not an address"),
        (f"topic list --bootstrap {NO_TEXT}:9092", 2, r"the argument \xff:9092 is not text"),
        ("trace tail --bootstrap a..b:9092", 2, "a..b:9092 is not an address"),
        ("watch --once --bootstrap a..b:9092", 2, "a..b:9092 is not an address"),
        ("serve --listen a..b:29092", 2, "'a..b' is not the name of a host"),
        ("serve --listen 127.0.0.1:0 --http a..b:29092", 2, "'a..b' is not the name of a host"),
        (f"serve --listen 127.0.0.1:0 --http '' --set broker.rack={NO_TEXT}", 2, "is not text"),
        (f"produce TOPIC --header k={NO_TEXT}", 2, r"the argument k=\xff is not text"),
        (f"produce TOPIC --key-separator {NO_TEXT}", 2, r"the argument \xff is not text"),
        (f"where TOPIC --key {NO_TEXT}", 2, r"the argument \xff is not text"),
        (f"topic describe {NO_TEXT}", 2, r"the argument \xff is not text"),
        ("produce TOPIC <&-", 0, ""),
        ("produce TOPIC --file /proc/self/mem", 2, "reading or writing failed: Input/output error"),
        ("topic list >&-", 0, ""),
        ("topic list --json >/dev/full", 2, "reading or writing failed: No space left on device"),
        ("topic describe TOPIC --all --json >/dev/full", 2, "reading or writing failed: No space left on device"),
        ("topic list 2>&-", 0, ""),
        ("topic describe QQQQ 2>&-", 2, ""),
        ("topic describe QQQQ 2>/dev/full", 2, ""),
        ("topic describe QQQQ <&- >&- 2>&-", 2, ""),
    ],
)
def test_whatever_is_wrong_is_said_without_a_traceback(
    chronik: Chronik, make_topic: Callable[..., str], tmp_path: Path, words: str, code: int, error: str
) -> None:
    result = run_in_shell(chronik, words.replace("TOPIC", make_topic()), tmp_path)

    assert result.code == code, result
    assert "Traceback" not in result.err
    assert "Exception ignored" not in result.err
    said = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(said) == (code == 2 and "2>" not in words), result
    assert error in "".join(said)


def test_a_terminal_that_lacks_a_letter_is_what_is_wrong(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    done = subprocess.run(
        [*COMMAND, "produce", make_topic(), "--key-separator", "ö"],
        input=b"no key\n",
        env=chronik.environment | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith(b"error: some text is not UTF-8: 'ascii' codec can't encode character")
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    make_topic()
    with chronik.running("topic", "list", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()

        assert (process.wait(COMMAND_SECONDS_MAX), process.stderr.read()) == (1, b"")


@pytest.mark.parametrize(
    ("met", "code", "error"),
    [
        ("KeyboardInterrupt", 130, ""),
        (
            "PermissionError(13, 'Permission denied', 'app.py')",
            2,
            "error: cannot use app.py: Permission denied; see that it is there, and that you may use it\n",
        ),
    ],
)
def test_what_happens_while_modules_are_loaded_is_no_traceback(met: str, code: int, error: str) -> None:
    program = f"""
import sys
from chronik.cli.main import main

class Meeting:
    def find_spec(self, name, path, target=None):
        if name == "chronik.cli.app":
            raise {met}

sys.meta_path.insert(0, Meeting())
sys.argv = ["chronik", "topic", "list"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (code, "", error)
