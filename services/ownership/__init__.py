"""Who works on a run when several processes share a database.

- A process is a member while its heartbeat renews its row (``members``, ``heartbeat``).
- It works on a run with a ticket, which names it and an epoch; its writes are refused once the epoch has risen
  (``ticket``).
- The runs of a dead member are taken over by a living one, which raises their epoch (``takeover``).
- Followers in the owner's process read the run's events from a feed (``feed``).

The gateway uses it for runs, the executor for executions.
"""
