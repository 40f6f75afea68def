"""executor_svc: runs proved plans through real APIs.

It receives a :class:`~services.contracts.planning.CompiledPlan`, starts each call as soon as *its* inputs are ready,
and streams events. Its invariants:

- It sends nothing for a plan with open approvals, or whose APIs are not the ones the plan was proved against.
- A failed step is data (``Failed | Skipped | InDoubt``), never an HTTP error. It stops only its dependants.
- A plan that may change something runs once per run id. It survives the loss of its caller and its process: a call is
  in the ledger, on disk, before it is sent.
- A call that may have changed something upstream is never resent unless resending is idempotent. If its outcome is
  unknown, it is ``in_doubt`` until a person settles it.
- A secret is resolved by name inside the HTTP adapter, goes only to the hosts it is bound to, and is masked in
  everything that leaves the adapter.
- No connection is opened to an address that is not public, unless the operator allows that host.

Plans that only read run in memory (``service``). Others run in the durable lane (``durable``, ``ledger``, ``storage``).
``docs/guarantees.md`` lists what is guaranteed and what cannot be.
"""
