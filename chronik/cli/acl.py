"""`chronik acl`: who may do what, and why something is allowed or refused."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, DryRun, Yes, example
from chronik.cli.output import counted, is_confirmed, print_json, print_line, print_note, print_table
from chronik.client.access import AccessAdmin
from chronik.client.errors import ChronikError
from chronik.core.access.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclPatternType,
    AclPermission,
    check_new,
    parse_principal,
)
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.errors import Refused

app = typer.Typer(name="acl", help="List, add, remove and explain access control lists.", no_args_is_help=True)
EXIT_REFUSED = 1
_OPERATIONS = {each.name.replace("_", "").lower(): each for each in AclOperation if each.value >= AclOperation.ALL}
_OPTIONS = {
    AclResourceType.TOPIC: "--topic",
    AclResourceType.GROUP: "--group",
    AclResourceType.TRANSACTIONAL_ID: "--transactional-id",
    AclResourceType.DELEGATION_TOKEN: "--delegation-token",
    AclResourceType.USER: "--user-principal",
}

Principal = Annotated[str, typer.Option("--principal", metavar="USER", help="User:alice; User:* is every user.")]
MaybePrincipal = Annotated[str | None, typer.Option("--principal", metavar="USER", help="Only rules about this one.")]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="OP", help="Read, Write, Create, Describe, Alter, All, ... Repeatable."),
]
Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="A topic; '*' is all.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="A consumer group.")]
Transactional = Annotated[str | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id.")]
Token = Annotated[str | None, typer.Option("--delegation-token", metavar="ID", help="A delegation token.")]
OfUser = Annotated[str | None, typer.Option("--user-principal", metavar="USER", help="A user whose tokens are meant.")]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is the beginning of names.")]
Deny = Annotated[bool, typer.Option("--deny", help="A rule that refuses; it wins over all that allow.")]


@app.command(
    "list", epilog=example("chronik acl list", "chronik acl list --principal User:alice", "chronik acl list --topic t")
)
def list_acls(
    principal: MaybePrincipal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    delegation_token: Token = None,
    user_principal: OfUser = None,
    cluster: Cluster = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the rules; for a resource, all that apply to it, prefixes and '*' included."""
    on = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster)
    found = _matching(AccessAdmin(bootstrap), on, principal, AclPatternType.MATCH)
    if as_json:
        print_json([_as_json(rule) for rule in found])
    elif found:
        print_table(["principal", "permission", "operation", "resource", "pattern", "host"], map(_cells, found))
    else:
        print_line("no rules")


@app.command(
    epilog=example(
        "chronik acl add --principal User:alice --operation Write --operation Describe --topic orders",
        "chronik acl add --principal User:bob --operation Read --topic orders- --prefixed --group reports",
        "chronik acl add --principal User:eve --operation All --topic '*' --deny",
    )
)
def add(
    principal: Principal,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    delegation_token: Token = None,
    user_principal: OfUser = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Annotated[str, typer.Option("--host", metavar="H", help="An address, or a network as 10.1.0.0/16.")] = "*",
    deny: Deny = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Add rules: every operation on every resource that is given. They count from the next request on."""
    on = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster)
    if not on:
        raise ChronikError("no resource is given", f"give {', '.join(_OPTIONS.values())} or --cluster")
    rules = _rules(principal, on, operation, host, is_prefixed=prefixed, is_denied=deny)
    admin = AccessAdmin(bootstrap)
    there = set(admin.acls(AclFilter(principal=principal)))
    new = [rule for rule in rules if rule not in there]
    if new and not dry_run:
        admin.add_acls(new)
    if as_json:
        print_json({"added": [_as_json(rule) for rule in new], "dry_run": dry_run})
        return
    for rule in rules:
        done = "is there already:" if rule in there else "would add" if dry_run else "added"
        print_line(f"{done} {rule}")


@app.command(epilog=example("chronik acl remove --principal User:alice --topic orders --yes"))
def remove(
    principal: MaybePrincipal = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    delegation_token: Token = None,
    user_principal: OfUser = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Remove the rules that fit; they are shown before. A resource is meant as it stands in the rule."""
    on = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster)
    if principal is None and not on:
        raise ChronikError("that would be every rule", "give --principal or a resource")
    pattern = AclPatternType.PREFIXED if prefixed else AclPatternType.LITERAL
    admin = AccessAdmin(bootstrap)
    found = _matching(admin, on, principal, pattern if on else AclPatternType.ANY)
    operations = _operations(operation) if operation else None
    gone = [rule for rule in found if operations is None or rule.operation in operations]
    if not gone:
        raise ChronikError("no rule fits", "`chronik acl list` lists them")
    if not dry_run and not yes:
        _confirm(gone)
    if not dry_run:
        admin.remove_acls(gone)
    if as_json:
        print_json({"removed": [_as_json(rule) for rule in gone], "dry_run": dry_run})
        return
    for rule in gone:
        print_line(f"{'would remove' if dry_run else 'removed'} {rule}")


@app.command(
    "explain",
    epilog=example(
        "chronik acl explain --principal User:alice --operation Write --topic orders",
        "chronik acl explain --principal User:alice --operation Read --group reports --host 10.1.2.3",
    ),
)
def explain(
    principal: Principal,
    operation: Annotated[str, typer.Option("--operation", metavar="OP", help="Read, Write, Describe, ...")],
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transactional = None,
    delegation_token: Token = None,
    user_principal: OfUser = None,
    cluster: Cluster = False,
    host: Annotated[str, typer.Option("--host", metavar="H", help="Where it comes from.")] = "127.0.0.1",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Say whether it is allowed, by which rule, and which rule is missing. Exit code 1: it is refused."""
    on = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster)
    if len(on) != 1:
        raise ChronikError("one resource is wanted", f"give {', '.join(_OPTIONS.values())} or --cluster")
    (kind, name), (wanted,) = on[0], _operations([operation])
    try:
        who = parse_principal(principal)
    except ValueError as problem:
        raise ChronikError(f"--principal: {problem}", "write it as User:NAME") from None
    told = AccessAdmin(bootstrap).explain(who, host, wanted, kind, name)
    fix = None if told.missing is None else command_for(told.missing)
    if as_json:
        print_json({"allowed": told.is_allowed, "reason": told.reason, "missing": fix, "sure": told.is_sure})
    else:
        print_line(f"{'allowed' if told.is_allowed else 'refused'}: {told.reason}")
        if fix is not None:
            print_line(f"this would allow it: {fix}")
    if not told.is_sure:
        print_note("whether it is a super user is not known: this cluster does not show super.users")
    if not told.is_allowed:
        raise typer.Exit(EXIT_REFUSED)


def command_for(rule: Acl) -> str:
    """The command that adds this rule."""
    on = "--cluster"
    if rule.resource_type is not AclResourceType.CLUSTER:
        on = f"{_OPTIONS[rule.resource_type]} {_quoted(rule.resource_name)}"
    return f"chronik acl add --principal {_quoted(rule.principal)} --operation {_titled(rule.operation)} {on}"


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)


def _resources(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    delegation_token: str | None,
    user: str | None,
    is_cluster: bool,
) -> list[tuple[AclResourceType, str]]:
    named = {
        AclResourceType.TOPIC: topic,
        AclResourceType.GROUP: group,
        AclResourceType.TRANSACTIONAL_ID: transactional_id,
        AclResourceType.DELEGATION_TOKEN: delegation_token,
        AclResourceType.USER: user,
        AclResourceType.CLUSTER: CLUSTER_NAME if is_cluster else None,
    }
    return [(kind, name) for kind, name in named.items() if name is not None]


def _rules(
    principal: str,
    on: list[tuple[AclResourceType, str]],
    operations: list[str] | None,
    host: str,
    *,
    is_prefixed: bool,
    is_denied: bool,
) -> list[Acl]:
    permission = AclPermission.DENY if is_denied else AclPermission.ALLOW
    made = []
    for kind, name in on:
        is_whole = not is_prefixed or kind is AclResourceType.CLUSTER
        pattern = AclPatternType.LITERAL if is_whole else AclPatternType.PREFIXED
        made += [Acl(kind, name, pattern, principal, host, each, permission) for each in _operations(operations)]
    for rule in made:
        try:
            check_new(rule)
        except Refused as refused:
            raise ChronikError(refused.message or "there can be no such rule") from None
    return made


def _operations(given: list[str] | None) -> list[AclOperation]:
    if not given:
        raise ChronikError("no operation is given", "give --operation, such as Read, Write or All")
    found = []
    for word in given:
        known = _OPERATIONS.get(word.replace("_", "").replace("-", "").lower())
        if known is None:
            names = ", ".join(_titled(each) for each in _OPERATIONS.values())
            raise ChronikError(f"there is no operation {word}", f"it may be {names}")
        found.append(known)
    return list(dict.fromkeys(found))


def _titled(operation: AclOperation) -> str:
    """As Kafka's tools write it: DescribeConfigs."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


def _matching(
    admin: AccessAdmin, on: list[tuple[AclResourceType, str]], principal: str | None, pattern: AclPatternType
) -> list[Acl]:
    if not on:
        return admin.acls(AclFilter(principal=principal))
    return [rule for kind, name in on for rule in admin.acls(AclFilter(kind, name, pattern, principal))]


def _as_json(rule: Acl) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "permission": rule.permission.name,
        "operation": rule.operation.name,
        "resource_type": rule.resource_type.name,
        "resource_name": rule.resource_name,
        "pattern_type": rule.pattern_type.name,
        "host": rule.host,
    }


def _cells(rule: Acl) -> list[object]:
    resource = f"{rule.resource_type.name.lower()} {rule.resource_name}"
    return [
        rule.principal,
        rule.permission.name.lower(),
        _titled(rule.operation),
        resource,
        rule.pattern_type.name.lower(),
        rule.host,
    ]


def _confirm(rules: list[Acl]) -> None:
    if not sys.stdin.isatty():
        raise ChronikError("nothing removed: there is no terminal to ask", "say --yes")
    for rule in rules:
        print_note(str(rule))
    if not is_confirmed(f"Remove {counted(len(rules), 'rule')}?"):
        print_note("nothing removed")
        raise typer.Exit(1)
