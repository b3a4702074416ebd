"""Learning from streams of rows that need not fit into memory."""
