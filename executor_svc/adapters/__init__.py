"""How calls are made. HTTP is the only way there is; the runner knows the ``Adapter`` protocol alone."""
