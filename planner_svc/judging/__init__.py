"""How likely the trained planner's word is right, once it is known what became of its draft.

:mod:`~planner_svc.judging.judge` weighs what :mod:`~planner_svc.judging.signs` sees of it.
"""
