"""Conversion of values between types: assignment in MySQL's modes, by the target type."""
