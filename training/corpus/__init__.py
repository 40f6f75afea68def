"""The corpus: requests written by hand over real vendors' APIs and invented systems, each with its plan."""
