"""What a node offers to the network: the MySQL protocol, and HTTP for status and metrics."""
