"""The gallery and the faults belong together, and each fault still finds the method that it replaces."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chronik.lab.faults import FAULTS
from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.trace.verdicts import Cause


def test_every_fault_of_a_node_is_in_the_gallery() -> None:
    built_in = {name for name, exhibit in GALLERY.items() if exhibit.faulty_nodes}

    assert built_in == set(FAULTS)


def test_of_every_fault_of_a_node_it_is_known_how_a_delivery_check_meets_it() -> None:
    met = {name for name, exhibit in GALLERY.items() if exhibit.verify_options is not None}
    in_transactions = {"coordinator-cannot-reach-a-partition"}  # one without them does not meet it

    assert met == set(FAULTS) - in_transactions


def test_only_the_healthy_exhibit_is_called_nothing() -> None:
    assert [name for name, exhibit in GALLERY.items() if exhibit.cause is None] == [HEALTHY]


def test_all_causes_that_a_cluster_can_show_are_shown() -> None:
    shown = {exhibit.cause for exhibit in GALLERY.values() if exhibit.cause is not None}

    # That nothing was produced only a program that knows what was sent can say: `chronik verify` does.
    assert shown == set(Cause) - {Cause.NEVER_PRODUCED}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_can_still_be_built_in(name: str) -> None:
    """In a process of its own: it stays built in for the rest of that process."""
    command = f"from chronik.lab.faults import FAULTS; FAULTS[{name!r}]()"

    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
