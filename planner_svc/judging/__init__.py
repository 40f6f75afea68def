"""Whose word stands where two planners were asked.

:mod:`~planner_svc.judging.judge` weighs what :mod:`~planner_svc.judging.signs` sees of both.
"""
