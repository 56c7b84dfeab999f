"""Queries: row by row from one table, or through the relational engine."""
