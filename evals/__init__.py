"""Measures Nestor against public benchmarks: readers of their data, the metrics of the field, one module per question.

Nothing here ships data or is imported by a service. A figure in a document names the command that prints it.
"""
