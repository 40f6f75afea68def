"""Measures Nestor against public benchmarks: data readers, standard metrics, and one module per question.

This package ships no data, and no service imports it. Each figure in a document names the command that prints it.
"""
