"""Storage of the services: SQL (SQLite or PostgreSQL) and a cache (memory or Redis)."""
