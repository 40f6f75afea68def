"""Training, export and measuring of the models the retriever serves.

``command`` is ``nestor train retriever``, ``relevance_command`` is ``nestor train relevance``.
"""
