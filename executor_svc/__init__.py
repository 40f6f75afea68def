"""executor_svc: runs proved plans through real APIs.

It is given a :class:`~services.contracts.planning.CompiledPlan`, starts each call when *its* inputs are ready, and
streams what happens. Its invariants:

- it sends nothing for a plan whose approvals are open, or whose APIs are not the ones the plan was proved against;
- a failed step is data (``Failed | Skipped | InDoubt``), never an HTTP error, and stops its dependants only;
- a plan that may change something is run once for its run id, and outlives its caller and its process: a call is in the
  ledger, on disk, before it is sent;
- a call that may have changed something upstream is never sent again unless that has the effect of sending it once;
  where its outcome is unknown it is ``in_doubt``, until a person settles it;
- a secret is resolved by name inside the HTTP adapter, goes only to the hosts it is bound to, and is masked in
  everything that leaves the adapter;
- no connection is opened to an address that is not public, unless the operator allows that host.

Plans that only read run in memory (``service``), others in the durable lane (``durable``, ``ledger``, ``storage``).
``docs/guarantees.md`` says what is promised and what cannot be.
"""
