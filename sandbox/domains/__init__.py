"""One module of routes per domain; each offers `router`."""
