"""State machine tests: Hypothesis chooses requests and faults, and a model checks the results.

They use real processes, sockets and databases. ``make chaos`` is the long campaign; these tests are short and
deterministic. ``NESTOR_TEST_PROFILE=thorough pytest tests/stateful`` explores more and shrinks failures.
"""
