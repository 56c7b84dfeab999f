"""Trees to typed expressions: from here on nothing guesses."""
