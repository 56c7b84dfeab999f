"""Finds the rows of one table: by key where the WHERE allows it, otherwise by a scan."""
