"""The ground floor: errors, clocks, limits and MySQL's type codes. Imports nothing of Exuvia."""
