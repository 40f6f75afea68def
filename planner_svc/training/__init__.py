"""Training data for the trained planner: requests whose every value is known by the characters that say it.

``examples`` is the form, ``align`` makes it of recorded requests, ``synthesis`` of any catalogue alone.
"""
