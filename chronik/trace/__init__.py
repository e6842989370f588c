"""What happened, as typed events and numbers."""
