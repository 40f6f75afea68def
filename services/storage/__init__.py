"""Where services keep things: SQL (SQLite or PostgreSQL) and a cache (memory or Redis)."""
