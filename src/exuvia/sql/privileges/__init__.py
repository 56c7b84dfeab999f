"""Accounts and what they may do."""
