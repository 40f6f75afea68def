"""``python -m tests.chaos``: executors, databases and connections are broken at random; then the effects are counted.

An upstream that survives everything notes each request (``upstream``). Random plans (``plans``) are driven through
executor processes that are killed all the time (``house``, ``zygote``, ``stores``, ``driver``). Afterwards ``judge``
compares what the runs claim with what the upstream saw. ``campaigns`` says what is broken and how.
"""
