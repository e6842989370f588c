"""Groups whose members change between the two protocols, in any order, with coordinators that move meanwhile."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.machines.groups.classic_group import ClassicGroup
from tests.unit.core.machines.groups.host import GROUP
from tests.unit.core.machines.groups.mixed_storm import (
    ALL,
    ChangingClient,
    MovingHost,
    check_nothing_is_used_twice,
)

MOVES = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["act"] * 10 + ["wait", "wait", "change", "change", "stop", "crash", "move"])
    ),
    max_size=50,
)


def play(
    moves: list[tuple[int, str]], static: bool, cooperative: bool, *, is_careful: bool
) -> tuple[MovingHost, list[ChangingClient]]:
    host = MovingHost()
    host.is_careful = is_careful
    clients = [ChangingClient(f"c{i}", host, f"i{i}" if static else None, cooperative) for i in range(4)]
    for number, move in moves:
        client = clients[number]
        match move:
            case "wait":
                host.wait(1_000)
                for other in clients:
                    other.act()
                    check_nothing_is_used_twice(clients)
            case "change":
                client.change()
            case "stop":
                client.stop()
            case "crash":
                client.crash()
            case "move":
                host.move()
            case _:
                client.act()
        check_nothing_is_used_twice(clients)
        if is_careful:
            host.check_log()
    return host, clients


@settings(max_examples=150, deadline=None)
@given(MOVES, st.booleans(), st.booleans())
def test_no_partition_has_two_users_while_members_change_their_protocol(
    moves: list[tuple[int, str]], static: bool, cooperative: bool
) -> None:
    play(moves, static, cooperative, is_careful=True)


@settings(max_examples=100, deadline=None)
@given(MOVES, st.booleans(), st.booleans(), st.integers(0, 4))
def test_after_a_storm_a_mixed_group_settles_and_every_partition_has_a_user(
    moves: list[tuple[int, str]], static: bool, cooperative: bool, classic_count: int
) -> None:
    host, clients = play(moves, static, cooperative, is_careful=False)
    for number, client in enumerate(clients):
        if client.is_classic != (number < classic_count):
            client.change()
    for _ in range(120):
        host.wait(1_000)
        for client in clients:
            client.act()
            check_nothing_is_used_twice(clients)
    assert sorted(pair for client in clients for pair in client.used) == sorted(ALL)
    assert all(client.used for client in clients)
    assert isinstance(host.machine.groups[GROUP], ClassicGroup) == (classic_count == 4)
