"""The network services of a node: the MySQL protocol, and HTTP for status and metrics."""
