"""Statements that write rows: INSERT, REPLACE, UPDATE, DELETE."""
