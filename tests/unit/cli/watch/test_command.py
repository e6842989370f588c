"""What `chronik watch` costs those that do not use it."""

from __future__ import annotations

import subprocess
import sys


def test_no_other_command_waits_for_textual_to_load() -> None:
    program = "import sys, chronik.cli.app; print([name for name in sys.modules if name.split('.')[0] == 'textual'])"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
