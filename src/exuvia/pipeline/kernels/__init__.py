"""Kernels: the work on the rows of one span, as generators with one transaction a step."""
