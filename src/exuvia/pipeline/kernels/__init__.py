"""What is done with the rows of one span: plain generators that do one transaction a step."""
