"""The catalog: what databases, tables, columns and indexes are, and how rows become keys."""
