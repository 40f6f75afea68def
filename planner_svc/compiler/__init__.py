"""The parts of the compiler; :func:`planner_svc.compile.compile_plan` puts them together.

=============== ====================================================================================================
schemas         what a JSON Schema says of a value: kinds, fields, items; literals against it. It rests on
                ``nodes`` (references), ``expansion`` (alternatives) and ``validation`` (validators and their cost)
assign          whether what one schema allows fits where another one asks
findings        collects diagnostics and counts the facts checked
graph           order, cycles, stages, steps nobody needs
arguments       every value of every step against what its API takes
implicit        missing arguments: producers, implicit calls, questions
access          policy, approvals, credentials
=============== ====================================================================================================
"""
