"""Benchmarks. Each prints its figures, its settings and the command that ran it."""
