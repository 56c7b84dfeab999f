"""The parts of every statement: its session, its snapshot and transaction, its locks."""
