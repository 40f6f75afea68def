"""``nestor eval plan``: does a plan call the right APIs, with the right arguments and references, and does it run?

``calls`` converts the data's solutions and the planner's plans into one form. ``matching`` pairs predicted calls with
reference calls, ``scoring`` counts and ``summary`` aggregates. ``offers`` and ``demonstrations`` make the planner's
input, ``asking`` asks it, ``upstream`` and ``running`` run its plans, and ``evaluate`` goes through the requests.
"""
