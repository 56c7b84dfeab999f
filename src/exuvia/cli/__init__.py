"""The command line: `exuvia serve | sql | ddl | doctor | demo`."""
