"""`python -m chronik.lab.node --fault NAME ...`: a node as `chronik serve` runs it, with one fault built in."""

from __future__ import annotations

import argparse
import logging
import sys

from chronik.lab.faults import FAULTS
from chronik.shell.errors import StartError
from chronik.shell.main import run

log = logging.getLogger(__name__)

# As `chronik serve` has them.
SETTING_OF_OPTION = {
    "node_id": "node.id",
    "listen": "listeners",
    "advertise": "advertised.listeners",
    "data_dir": "log.dirs",
    "http": "http.address",
}
EXIT_BAD_INPUT = 2


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m chronik.lab.node", description=__doc__)
    parser.add_argument("--fault", required=True, choices=sorted(FAULTS))
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    for option in SETTING_OF_OPTION:
        parser.add_argument("--" + option.replace("_", "-"))
    given = parser.parse_args(arguments)
    values = dict(each.split("=", 1) for each in given.set)
    values |= {key: value for option, key in SETTING_OF_OPTION.items() if (value := getattr(given, option)) is not None}
    FAULTS[given.fault]()
    try:
        return run(values, given.config)
    except StartError as error:
        sys.stderr.write(f"error: {error.message}; {error.what_to_do}\n")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
