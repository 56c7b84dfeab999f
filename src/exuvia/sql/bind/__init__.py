"""Syntax trees to typed expressions: every later step relies on these types."""
