"""Trains the compact planner on requests in which the characters that state each value are known.

``examples`` defines the data. ``align`` makes it from recorded requests, ``synthesis`` from a catalogue alone.
``command`` implements ``nestor train planner``.
"""
