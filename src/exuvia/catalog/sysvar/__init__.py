"""System variables: what they are, which there are, and their global values."""
