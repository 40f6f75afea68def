"""How calls are made. HTTP is the only adapter; the runner depends only on the ``Adapter`` protocol."""
