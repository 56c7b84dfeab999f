"""Text to statements: MySQL's own grammar over sqlglot's tokens and expressions."""
