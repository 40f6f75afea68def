"""The planner: turns a request and its candidate APIs into a plan, and proves plans before anything is sent.

A *backend* drafts plans (:mod:`planner_svc.backends`); the *compiler* (:mod:`planner_svc.compile`) checks a draft
against the schemas of its APIs and either proves it or says what is wrong, in terms a person and the repair loop can
both act on.

Invariants:

- No plan leaves this service as ``planned`` unless the compiler proved it; backends are never trusted.
- The compiler is a pure function of plan, APIs, policy and names of credentials. It fetches nothing.
- The planner knows secrets by name only.
- The planner keeps no state between requests, so any number of planners can run side by side.
"""
