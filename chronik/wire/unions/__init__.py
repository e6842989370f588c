"""Messages whose fields moved between versions: one type with the fields of all of them, each with a default."""
