"""Training, export and measuring of the models that the retriever serves.

``command`` implements ``nestor train retriever``, ``relevance_command`` implements ``nestor train relevance``.
"""
