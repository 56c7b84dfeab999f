"""Accounts, what they are granted, roles: the statements, and the rows they write in mysql.*."""
