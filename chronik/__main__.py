"""`python -m chronik` is the `chronik` command."""

from __future__ import annotations

import sys

from chronik.cli.main import main

sys.exit(main())
