"""What `chronik pipeline` does: each job reads, transforms, checks and writes."""
