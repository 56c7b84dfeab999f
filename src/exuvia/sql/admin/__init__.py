"""Statements of administration: ADMIN, ANALYZE, CHECK TABLE."""
