"""A network of namespaces: each node in one of its own, behind a router that can be told to let nothing through.

      node 1 --- router --- node 2          10.213.<number>.2 is a node, 10.213.<number>.1 the router's end
                 |    \\---- node 3
               the tests

A cut is a rule of the router that swallows packets both ways, silently, as a broken network does. The tests, and so
clients, reach every node all the time. Needs the right to make namespaces; nothing outside them is changed but one
pair of interfaces and one route, which go when the test ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

NETWORK = "10.213"
TESTS = 99  # the number of the tests' own link


class NoNamespaces(Exception):
    """They cannot be made here; the message says why."""


def ip(*words: str) -> None:
    """Runs the `ip` command. Raises NoNamespaces with what it says when it fails."""
    if shutil.which("ip") is None:
        raise NoNamespaces("there is no `ip` command")
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoNamespaces(f"`ip {' '.join(words)}` says: {done.stderr.strip()}")


class Namespaces:
    """The router and the namespaces of some numbers."""

    def __init__(self, numbers: Iterable[int], stack: ExitStack) -> None:
        self._mark = f"ck{os.getpid() % 100_000}"
        self.numbers = list(numbers)
        self._router = f"{self._mark}r"
        self._make(self._router, stack)
        ip("netns", "exec", self._router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        for number in self.numbers:
            self._make(self.name(number), stack)
            self._connect(number, self.name(number))
            self.inside(number, "route", "add", "default", "via", f"{NETWORK}.{number}.1")
        self._connect(TESTS, None)
        stack.callback(subprocess.run, ["ip", "link", "del", f"{self._mark}n{TESTS}"], check=False, capture_output=True)
        ip("route", "add", f"{NETWORK}.0.0/16", "via", f"{NETWORK}.{TESTS}.1")

    def _make(self, name: str, stack: ExitStack) -> None:
        ip("netns", "add", name)
        stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False, capture_output=True)
        ip("-n", name, "link", "set", "lo", "up")

    def _connect(self, number: int, name: str | None) -> None:
        """A pair of interfaces between the router and a namespace, or the tests."""
        near, far = f"{self._mark}r{number}", f"{self._mark}n{number}"
        there = [] if name is None else ["-n", name]
        ip(
            "link",
            "add",
            near,
            "netns",
            self._router,
            "type",
            "veth",
            "peer",
            "name",
            far,
            *(["netns", name] if name else []),
        )
        for space, interface, end in ((["-n", self._router], near, 1), (there, far, 2)):
            ip(*space, "address", "add", f"{NETWORK}.{number}.{end}/24", "dev", interface)
            ip(*space, "link", "set", interface, "up")

    def name(self, number: int) -> str:
        return f"{self._mark}n{number}"

    def host(self, number: int) -> str:
        return f"{NETWORK}.{number}.2"

    def inside(self, number: int, *words: str) -> None:
        ip("-n", self.name(number), *words)

    @contextmanager
    def apart(self, ones: Iterable[int], others: Iterable[int]) -> Iterator[None]:
        """Nothing gets through between these and those, in either direction, for the length of the block."""
        ways = [way for one, other in product(ones, others) for way in ((one, other), (other, one))]
        for way in ways:
            self._rule("add", *way)
        try:
            yield
        finally:
            for way in ways:
                self._rule("del", *way)

    def _rule(self, verb: str, source: int, target: int) -> None:
        way = ["from", f"{NETWORK}.{source}.0/24", "to", f"{NETWORK}.{target}.0/24"]
        ip("-n", self._router, "rule", verb, "priority", "10", *way, "blackhole")


@contextmanager
def namespaces(*numbers: int) -> Iterator[Namespaces]:
    """Raises NoNamespaces."""
    with ExitStack() as stack:
        yield Namespaces(numbers, stack)
