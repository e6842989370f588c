"""Where the `chronik` command begins, and the one place where its errors are printed.

A plain `chronik serve` takes a short way that imports neither typer nor rich: a node is to acknowledge its first
message within half a second of being started. All else, also `serve --help` and mistakes, goes through typer.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

from chronik.client.errors import ChronikError

EXIT_NOBODY_READS = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # as a shell says it of a program that Ctrl-C ended


def main() -> int:
    _open_closed_streams()
    try:
        _refuse_unreadable(sys.argv[1:])
        code = _dispatch(sys.argv[1:])
        sys.stdout.flush()  # when Python does it at its end, it is too late to say that the disk is full
        return code
    except ChronikError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        return EXIT_NOBODY_READS
    except OSError as error:
        return _refuse(_refused_by_system(error))
    except UnicodeError as error:
        return _refuse(ChronikError(f"some text is not UTF-8: {error}", "set LANG to a UTF-8 locale, and check files"))
    finally:
        _drop_unwritten(sys.stdout)
        _drop_unwritten(sys.stderr)


def _open_closed_streams() -> None:
    """Of a stream that is closed (`>&-`) Python makes None, and the next file that is opened gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for all that follows


def _refuse_unreadable(arguments: list[str]) -> None:
    """Bytes that are not UTF-8 come from the shell as half characters, which no library expects: librdkafka's client
    for Python crashes over a topic of that name."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(argument).decode(errors="backslashreplace")
            raise ChronikError(f"the argument {shown} is not text", "write it in UTF-8") from None


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["serve"] and "_CHRONIK_COMPLETE" not in os.environ:
        from chronik.cli.serve import plain

        request = plain.read_plainly(arguments[1:])
        if request is not None:
            return plain.start(request)
    return _run_typer()


def _run_typer() -> int:
    import typer

    from chronik.cli.app import app

    # Click's own, or that of the copy of click in newer versions of typer, which has no public name.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        code: int | None = app(prog_name="chronik", standalone_mode=False)
        return code or 0
    except usage_error as error:
        words = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
        if not words:  # no command at all, and its help has been printed
            return EXIT_BAD_INPUT
        context = getattr(error, "ctx", None)
        path = "chronik" if context is None else context.command_path
        join = " See" if words.endswith("?") else "; see"  # 'Did you mean ...?'
        raise ChronikError(f"{words[0].lower()}{words[1:]}{join} `{path} --help`") from None


def _refused_by_system(error: OSError) -> ChronikError:
    reason = error.strerror or str(error)
    if error.filename is not None:
        return ChronikError(f"cannot use {error.filename}: {reason}", "see that it is there, and that you may use it")
    return ChronikError(
        f"reading or writing failed: {reason}", "check where standard output goes, the disk and the network"
    )


def _drop_unwritten(stream: TextIO) -> None:
    """What a stream does not take goes nowhere, or Python would try again at its end, complain, and exit with 120."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _refuse(error: ChronikError) -> int:
    label = "error:"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        label = f"\x1b[1;31m{label}\x1b[0m"
    with suppress(OSError):  # where it cannot be said, the exit code must do
        print(f"{label} {error}", file=sys.stderr)
    return EXIT_BAD_INPUT
