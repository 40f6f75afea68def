"""Speed and size of Nestor, measured from outside on real processes: ``make bench`` prints the table."""
