"""State machines: Hypothesis chooses what is asked for and what goes wrong, and a model says what must hold.

Real processes, real sockets, real databases. ``make chaos`` is the long campaign; this one is short, the same in every
run. ``NESTOR_TEST_PROFILE=thorough pytest tests/stateful`` looks further, and shrinks what it finds.
"""
