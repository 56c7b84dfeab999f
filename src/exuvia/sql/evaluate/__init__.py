"""Typed expressions to Python closures, with MySQL's semantics."""
