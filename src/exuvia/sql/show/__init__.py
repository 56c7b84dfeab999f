"""What is told of itself: SHOW, ADMIN, EXPLAIN, information_schema."""
