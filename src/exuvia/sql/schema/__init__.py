"""Statements that change the schema: definitions checked, then a job."""
