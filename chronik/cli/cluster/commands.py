"""`chronik cluster`: a cluster of several nodes on this machine, one process a node."""

from __future__ import annotations

import typer

from chronik.cli.cluster import members, start, status, stop

app = typer.Typer(
    name="cluster",
    help="Run a cluster on this machine: start, watch and stop it, and try what it can bear.",
    no_args_is_help=True,
)
app.command("start", epilog=start.EXAMPLE)(start.start)
app.command("status", epilog=status.EXAMPLE)(status.status)
app.command("stop", epilog=stop.STOP_EXAMPLE)(stop.stop)
app.command("kill", epilog=stop.KILL_EXAMPLE)(stop.kill)
app.command("restart", epilog=stop.RESTART_EXAMPLE)(stop.restart)
app.command("add", epilog=members.ADD_EXAMPLE)(members.add)
app.command("remove", epilog=members.REMOVE_EXAMPLE)(members.remove)
