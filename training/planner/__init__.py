"""The compact planner's training, and its data: requests whose every value is known by the characters that say it.

``examples`` is the form of the data, ``align`` makes it of recorded requests, ``synthesis`` of any catalogue alone.
``command`` is ``nestor train planner``.
"""
