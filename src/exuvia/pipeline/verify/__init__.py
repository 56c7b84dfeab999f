"""Whether what a reorg wrote, or a user asks about, is what the rows say."""
