"""Values between types: assignment in MySQL's modes, by the type that a value becomes."""
