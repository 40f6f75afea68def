"""Trains Nestor's models. Needs the ``train`` requirements. No service imports it and no image contains it.

``retriever`` trains the encoder and the second stage of retrieval, ``planner`` the compact planner, ``llm`` the
language model. ``shared`` holds common code. ``nestor train`` runs them.
"""
