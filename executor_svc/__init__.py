"""executor_svc: runs proved plans through real APIs.

It is given a :class:`~services.contracts.planning.CompiledPlan`, starts each call when *its* inputs are ready, and
streams what happens. Its invariants:

- it sends nothing for a plan whose approvals are open, or whose APIs are not the ones the plan was proved against;
- a failed step is data (``Failed | Skipped | InDoubt``), never an HTTP error, and stops its dependants only;
- a request that may have changed something upstream is never sent twice without an idempotency key: where its outcome
  is unknown the step is ``in_doubt``;
- a secret is resolved by name inside the HTTP adapter, goes only to the hosts it is bound to, and is masked in
  everything that leaves the adapter;
- no connection is opened to an address that is not public, unless the operator allows that host.

``main > handlers > service > runner | adapters > references | secret_store > models > settings``.
"""
