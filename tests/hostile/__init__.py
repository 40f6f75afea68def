"""What hostile upstreams, documents and networks may do to the executor, through real sockets."""
