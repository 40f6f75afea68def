"""One module of routes per domain. Each defines `router`."""
