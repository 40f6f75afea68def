"""How Nestor's models are made. Needs the ``train`` requirements; no service loads any of it, no image holds it.

``retriever`` makes the encoder and the second stage of retrieval, ``planner`` the compact planner; ``shared`` is what
they have in common. ``nestor train`` runs them.
"""
