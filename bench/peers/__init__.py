"""Other runners for the same graph of calls, each with its best suited HTTP client."""
