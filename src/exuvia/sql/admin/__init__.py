"""Statements that act on what is there beside the session: ADMIN, ANALYZE, CHECK TABLE."""
