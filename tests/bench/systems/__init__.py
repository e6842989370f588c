"""What is measured. A peer is one more module here, with a System of its own."""
