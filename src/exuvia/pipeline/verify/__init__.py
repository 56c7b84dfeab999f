"""Verification: compares what a reorg wrote, or an index that a user checks, with the rows."""
