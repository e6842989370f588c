"""Record batches to Arrow columns and back, without Python per record."""
