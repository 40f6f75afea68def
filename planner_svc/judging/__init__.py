"""How likely a planner's answer is right, given how its draft was proved.

:mod:`~planner_svc.judging.judge` weighs the signs that :mod:`~planner_svc.judging.signs` computes.
"""
