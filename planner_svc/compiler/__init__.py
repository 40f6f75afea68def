"""The parts of the compiler; :func:`planner_svc.compile.compile_plan` combines them.

=============== ====================================================================================================
schemas         what a JSON Schema tells about a value: kinds, fields, items; checks of literals. It is built on
                ``nodes`` (references), ``expansion`` (alternatives) and ``validation`` (validators and their cost)
assign          whether values of one schema fit where another one is required
findings        collects diagnostics and counts the facts checked
graph           order, cycles, stages, unused steps
arguments       checks every value of every step against its API
implicit        missing arguments: producers, implicit calls, questions
access          policy, approvals, credentials
=============== ====================================================================================================
"""
