"""`chronik pipeline`: the jobs that run on Spark. Each is in a file of its own, and imports Spark when it runs."""

from __future__ import annotations

import typer

from chronik.cli.pipeline import audit, compare, diagnose, ingest, replay, report

app = typer.Typer(
    name="pipeline",
    help="Data at rest and in bulk, on Spark: fill tables from topics, replay, audit, diagnose.",
    no_args_is_help=True,
)


@app.callback()
def _jobs() -> None:
    """Data at rest and in bulk, on Spark: fill tables from topics, replay, audit, diagnose."""


# A job's command: one line here, all else in chronik/cli/pipeline/<job>.py.
app.command("audit", epilog=audit.EXAMPLE)(audit.audit)
app.command("compare", epilog=compare.EXAMPLE)(compare.compare)
app.command("diagnose", epilog=diagnose.EXAMPLE)(diagnose.diagnose)
app.command("ingest", epilog=ingest.EXAMPLE)(ingest.ingest)
app.command("replay", epilog=replay.EXAMPLE)(replay.replay)
app.command("report", epilog=report.EXAMPLE)(report.report)
