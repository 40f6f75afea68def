"""Benchmarks of Nestor's speed and size, measured from outside on real processes. ``make bench`` prints the tables."""
