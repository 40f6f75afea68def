"""The corpus: requests written one by one over real vendors' APIs and invented systems, each with its plan."""
