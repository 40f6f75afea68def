"""Search: the vector index behind its seam, the lexical index, the snapshot that joins them, and ranking."""
