"""Record batches and the records of machines, as bytes."""
