"""Typed expressions to DuckDB: what is relational in a query."""
