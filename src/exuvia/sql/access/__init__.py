"""How the rows of one table are found: by key where the WHERE allows it."""
