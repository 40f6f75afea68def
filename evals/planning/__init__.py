"""``nestor eval plan``: are the right APIs called, with the right arguments, wired the right way, and does it run?

``calls`` brings the data's solutions and the planner's plans into one form, ``matching`` says which call stands for
which, ``scoring`` counts, ``summary`` sums up, ``offers`` and ``demonstrations`` make what the planner is given,
``asking`` asks it, ``upstream`` and ``running`` run its plans, ``evaluate`` goes through the requests.
"""
