"""Chooses which plan of a draft to offer, and says why one is not offered.

:mod:`~planner_svc.proving.prover` goes through a draft's plans and has the compiler prove each one. If a plan is wrong
only in how it is written, :mod:`~planner_svc.proving.repair` corrects it. A proved plan is compared with the
request's words: it may leave something out (:mod:`~planner_svc.proving.unused_values`), do something else
(:mod:`~planner_svc.proving.wrong_target`), or call APIs that do not return what is asked for
(:mod:`~planner_svc.proving.untold`).
"""
