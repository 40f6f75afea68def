"""``python -m tests.chaos``: breaks executors, databases and connections at random, then checks the effects.

An upstream that is never broken records each request (``upstream``). Random plans (``plans``) run through executor
processes that are killed repeatedly (``house``, ``zygote``, ``stores``, ``driver``). Then ``judge`` compares the runs'
records with the upstream's. ``campaigns`` runs the rounds, ``fires`` injects the faults, ``setups`` lists the
campaigns.
"""
