"""Self-instruct (Seal-Tools, section 3): a language model makes up fields, tools and requests with their calls."""
