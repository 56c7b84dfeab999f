"""The store: a transactional, ordered key-value map with snapshots, shared by many processes."""
