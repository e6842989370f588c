"""`chronik pipeline`: the jobs that run on Spark."""
