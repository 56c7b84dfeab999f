"""One client's statements: dispatch, transactions, plans, variables."""
