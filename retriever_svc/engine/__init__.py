"""Search: the vector index behind its interface, the lexical index, the snapshot that joins them, and ranking."""
