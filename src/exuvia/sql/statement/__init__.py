"""What every statement stands on: its session, its snapshot and transaction, its locks."""
