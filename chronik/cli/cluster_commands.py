"""`chronik cluster`: a cluster of several nodes on this machine, one process a node."""

from __future__ import annotations

import typer

from chronik.cli import cluster_members, cluster_start, cluster_status, cluster_stop

app = typer.Typer(
    name="cluster",
    help="Run a cluster on this machine: start, watch and stop it, and try what it can bear.",
    no_args_is_help=True,
)
app.command("start", epilog=cluster_start.EXAMPLE)(cluster_start.start)
app.command("status", epilog=cluster_status.EXAMPLE)(cluster_status.status)
app.command("stop", epilog=cluster_stop.STOP_EXAMPLE)(cluster_stop.stop)
app.command("kill", epilog=cluster_stop.KILL_EXAMPLE)(cluster_stop.kill)
app.command("restart", epilog=cluster_stop.RESTART_EXAMPLE)(cluster_stop.restart)
app.command("add", epilog=cluster_members.ADD_EXAMPLE)(cluster_members.add)
app.command("remove", epilog=cluster_members.REMOVE_EXAMPLE)(cluster_members.remove)
