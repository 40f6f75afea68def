"""Tests with hostile upstreams, documents and networks, over real sockets."""
