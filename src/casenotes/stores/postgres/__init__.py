"""The server store: PostgreSQL with pgvector."""
