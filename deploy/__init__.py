"""How Nestor is put together and run: one service per process, all in one process, and the command line."""
