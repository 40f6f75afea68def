"""Which plan of a draft is offered, and what keeps one from being offered.

:mod:`~planner_svc.proving.prover` goes through a draft's plans and has each proved by the compiler, after
:mod:`~planner_svc.proving.repair` where how it is written is all that is wrong. A proved plan is held against the
request's words: it may leave something out (:mod:`~planner_svc.proving.leftovers`) or do something else to something
else (:mod:`~planner_svc.proving.near_misses`), or no API may tell what is asked for
(:mod:`~planner_svc.proving.untold`).
"""
