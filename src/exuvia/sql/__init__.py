"""SQL: text becomes a statement, a statement becomes reads, writes or a job."""
