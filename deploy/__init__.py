"""Assembles and runs Nestor: one service per process or all in one process, and the command line."""
