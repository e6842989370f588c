"""`chronik quota`: how much users, clients and addresses may ask of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, DryRun, example
from chronik.cli.output import print_json, print_line, print_table
from chronik.cli.values import parse_pairs
from chronik.client.access import AccessAdmin
from chronik.client.errors import ChronikError

app = typer.Typer(name="quota", help="List, set and remove quotas of users and clients.", no_args_is_help=True)
USER, CLIENT, ADDRESS = "user", "client-id", "ip"
DEFAULT_WORD = "<default>"
LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
ADDRESS_LIMITS = ("connection_creation_rate",)

OfUser = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user; '<default>': all without a quota.")]
OfClient = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id, or '<default>'.")]
OfAddress = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address, or '<default>'.")]


@app.command("list", epilog=example("chronik quota list", "chronik quota list --user alice --json"))
def list_quotas(
    user: OfUser = None,
    client_id: OfClient = None,
    ip: OfAddress = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the quotas that were set, of all or of one user, client or address."""
    found = AccessAdmin(bootstrap).quotas(_entity(user, client_id, ip))
    if as_json:
        print_json([{"entity": entity, "limits": limits} for entity, limits in found])
    elif found:
        rows = [[_written(entity), key, f"{value:g}"] for entity, limits in found for key, value in limits.items()]
        print_table(["entity", "limit", "value"], rows)
    else:
        print_line("no quotas")


@app.command(
    "set",
    epilog=example(
        "chronik quota set producer_byte_rate=1000000 --user alice",
        "chronik quota set consumer_byte_rate=5e6 request_percentage=50 --user '<default>' --client-id reports",
        "chronik quota set connection_creation_rate=20 --ip '<default>'",
    ),
)
def set_quota(
    limits: Annotated[
        list[str], typer.Argument(metavar="LIMIT=VALUE...", help=f"{', '.join(LIMITS)}; bytes a second.")
    ],
    user: OfUser = None,
    client_id: OfClient = None,
    ip: OfAddress = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Set limits; others that the same entity has stay."""
    entity = _needed(user, client_id, ip)
    values: dict[str, float | None] = {}
    for key, text in parse_pairs("LIMIT", limits).items():
        _check_limit(key, entity)
        try:
            values[key] = float(text)
        except ValueError:
            raise ChronikError(f"{key} is {text}", "give a number") from None
    AccessAdmin(bootstrap).alter_quota(entity, values, is_dry_run=dry_run)
    if as_json:
        print_json({"entity": entity, "limits": values, "dry_run": dry_run})
        return
    for key, value in values.items():
        print_line(f"{'would set' if dry_run else 'set'} {key}={value:g} for {_written(entity)}")


@app.command(epilog=example("chronik quota remove producer_byte_rate --user alice"))
def remove(
    limits: Annotated[list[str], typer.Argument(metavar="LIMIT...", help="Which; see `chronik quota list`.")],
    user: OfUser = None,
    client_id: OfClient = None,
    ip: OfAddress = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Remove limits: a more general one counts then, if there is any."""
    entity = _needed(user, client_id, ip)
    for key in limits:
        _check_limit(key, entity)
    AccessAdmin(bootstrap).alter_quota(entity, dict.fromkeys(limits), is_dry_run=dry_run)
    if as_json:
        print_json({"entity": entity, "removed": limits, "dry_run": dry_run})
        return
    for key in limits:
        print_line(f"{'would remove' if dry_run else 'removed'} {key} of {_written(entity)}")


def _entity(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    given = {USER: user, CLIENT: client_id, ADDRESS: ip}
    return {kind: None if name == DEFAULT_WORD else name for kind, name in given.items() if name is not None}


def _needed(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    entity = _entity(user, client_id, ip)
    if not entity:
        raise ChronikError("no entity is given", "give --user, --client-id, both, or --ip")
    if ADDRESS in entity and len(entity) > 1:
        raise ChronikError("--ip stands alone", "leave out --user and --client-id")
    return entity


def _check_limit(key: str, entity: dict[str, str | None]) -> None:
    allowed = ADDRESS_LIMITS if ADDRESS in entity else LIMITS
    if key not in allowed:
        raise ChronikError(f"there is no limit {key} here", f"it may be {', '.join(allowed)}")


def _written(entity: dict[str, str | None]) -> str:
    return ", ".join(f"{kind} {DEFAULT_WORD if name is None else name}" for kind, name in entity.items())
