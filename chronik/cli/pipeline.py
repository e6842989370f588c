"""`chronik pipeline`: the jobs that run on Spark. Each is in a file of its own, and imports Spark when it runs."""

from __future__ import annotations

import typer

from chronik.cli import (
    pipeline_audit,
    pipeline_compare,
    pipeline_diagnose,
    pipeline_ingest,
    pipeline_replay,
    pipeline_report,
)

app = typer.Typer(
    name="pipeline",
    help="Data at rest and in bulk, on Spark: fill tables from topics, replay, audit, diagnose.",
    no_args_is_help=True,
)


@app.callback()
def _jobs() -> None:
    """Data at rest and in bulk, on Spark: fill tables from topics, replay, audit, diagnose."""


# A job's command: one line here, all else in chronik/cli/pipeline_<job>.py.
app.command("audit", epilog=pipeline_audit.EXAMPLE)(pipeline_audit.audit)
app.command("compare", epilog=pipeline_compare.EXAMPLE)(pipeline_compare.compare)
app.command("diagnose", epilog=pipeline_diagnose.EXAMPLE)(pipeline_diagnose.diagnose)
app.command("ingest", epilog=pipeline_ingest.EXAMPLE)(pipeline_ingest.ingest)
app.command("replay", epilog=pipeline_replay.EXAMPLE)(pipeline_replay.replay)
app.command("report", epilog=pipeline_report.EXAMPLE)(pipeline_report.report)
