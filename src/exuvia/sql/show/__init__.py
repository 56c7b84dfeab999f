"""Statements that describe the system: SHOW, ADMIN, EXPLAIN, information_schema."""
