"""`chronik user`: the users of a cluster that log in by SCRAM."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, DryRun, Yes, example
from chronik.cli.output import is_confirmed, print_json, print_line, print_note, print_table
from chronik.client.access import AccessAdmin, ScramUser
from chronik.client.errors import ChronikError
from chronik.client.scram_users import asked_password, password_in, salted
from chronik.client.suggest import unknown
from chronik.core.access.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS, ScramMechanism

app = typer.Typer(name="user", help="List, add and remove users that log in by SCRAM.", no_args_is_help=True)
GENERATED_BYTES = 24

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, without 'User:'.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512. Repeatable.", show_default="both"
    ),
]


@app.command("list", epilog=example("chronik user list", "chronik user list --json"))
def list_users(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the users, and by which mechanisms each can log in. Passwords cannot be read."""
    found = AccessAdmin(bootstrap).users()
    if as_json:
        print_json([{"user": user.name, "mechanisms": dict(user.iterations)} for user in found])
    elif found:
        print_table(["user", "mechanisms"], [[user.name, ", ".join(user.iterations)] for user in found])
    else:
        print_line("no users")


@app.command(
    epilog=example(
        "chronik user add alice",
        "chronik user add alice --password-file alice.password",
        "chronik user add ci --generate",
    )
)
def add(
    name: UserName,
    password_file: Annotated[
        str | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="The password is its first line. Else it is in CHRONIK_USER_PASSWORD, or asked for.",
        ),
    ] = None,
    generate: Annotated[bool, typer.Option("--generate", help="Make a password, and print it once.")] = False,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=ITERATIONS_MIN, max=ITERATIONS_MAX, metavar="N", help="Of the salting.")
    ] = ITERATIONS_MIN,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Add a user, or give one that is there another password. What is sent is salted, and enough to log in: use TLS."""
    chosen = _mechanisms(mechanism)
    admin = AccessAdmin(bootstrap)
    is_there = any(user.name == name for user in admin.users())
    password = "" if dry_run else _password(name, password_file, generate)
    if not dry_run:
        admin.add_user(salted(name, each, password, iterations) for each in chosen)
    names = [each.sasl_name for each in chosen]
    if as_json:
        told = {"user": name, "mechanisms": names, "was_there": is_there, "dry_run": dry_run}
        print_json(told | ({"password": password} if generate and not dry_run else {}))
        return
    done = ("would change" if is_there else "would add") if dry_run else "changed" if is_there else "added"
    print_line(f"{done} user {name} ({', '.join(names)})")
    if generate and not dry_run:
        print_line(f"password: {password}")


@app.command(epilog=example("chronik user remove alice --yes", "chronik user remove alice --mechanism SCRAM-SHA-256"))
def remove(
    name: UserName,
    mechanism: Mechanisms = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Remove a user. Its ACLs stay; see `chronik acl list --principal User:NAME`."""
    admin = AccessAdmin(bootstrap)
    found = admin.users()
    user = next((each for each in found if each.name == name), None)
    if user is None:
        raise unknown("user", name, [each.name for each in found], "`chronik user list` lists the users")
    gone = _to_remove(user, mechanism)
    if not dry_run and not yes:
        _confirm(name)
    if not dry_run:
        admin.remove_user(name, gone)
    names = [each.sasl_name for each in gone]
    if as_json:
        print_json({"user": name, "mechanisms": names, "dry_run": dry_run})
    else:
        print_line(f"{'would remove' if dry_run else 'removed'} user {name} ({', '.join(names)})")


def _to_remove(user: ScramUser, given: list[str] | None) -> list[ScramMechanism]:
    there = [SCRAM_MECHANISMS[each] for each in user.iterations if each in SCRAM_MECHANISMS]
    wanted = there if given is None else [each for each in _mechanisms(given) if each in there]
    if not wanted:
        raise ChronikError(f"user {user.name} does not log in by {', '.join(given or ())}")
    return wanted


def _mechanisms(given: list[str] | None) -> list[ScramMechanism]:
    if not given:
        return list(SCRAM_MECHANISMS.values())
    for each in given:
        if each.upper() not in SCRAM_MECHANISMS:
            raise ChronikError(f"--mechanism {each} is none of SCRAM's", f"it may be {', '.join(SCRAM_MECHANISMS)}")
    return [SCRAM_MECHANISMS[each.upper()] for each in dict.fromkeys(given)]


def _password(name: str, file: str | None, is_generated: bool) -> str:
    if is_generated and file is not None:
        raise ChronikError("--generate and --password-file contradict each other", "give one of them")
    if is_generated:
        return secrets.token_urlsafe(GENERATED_BYTES)
    password = asked_password(name) if file is None else password_in(file)
    if not password:
        raise ChronikError(f"the password of {name} is empty")
    return password


def _confirm(name: str) -> None:
    if not sys.stdin.isatty():
        raise ChronikError("nothing removed: there is no terminal to ask", "say --yes")
    if not is_confirmed(f"Remove user {name}?"):
        print_note("nothing removed")
        raise typer.Exit(1)
