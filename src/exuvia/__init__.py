"""Exuvia: online schema change for tables that must not stop."""

__version__ = "0.4.0.dev0"
