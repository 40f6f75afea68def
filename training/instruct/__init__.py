"""Self-instruct (Seal-Tools, section 3): a language model generates fields, tools and requests with their calls."""
