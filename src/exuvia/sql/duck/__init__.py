"""Typed expressions rendered as DuckDB SQL: joins, grouping, ordering, set operations."""
