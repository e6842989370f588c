"""One HTML page that says what happened to the messages of a cluster. Pure: plain values in, text out."""
