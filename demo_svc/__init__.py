"""The knowledge base of solved requests, and the Demo Selector (TPTU-v2, section 3.4).

A *task-level* demo shows how a whole request is solved; an *API-level* demo shows one API in use. For a request, the
selector returns the task-level demos whose own requests are most similar, and fills the remaining places with API-level
demos of the offered APIs.

Invariants:

- A demo's id is the hash of its query and plan, so adding a demo is idempotent.
- A text is encoded once per encoder: its vector is stored in SQL under (hash of the text, encoder's name).
- The version in SQL grows with every change. A selection first compares it with its snapshot's version, so no replica
  answers from a stale knowledge base.
- A snapshot is immutable and swapped as a whole.
- If the request offers APIs, no selected demo uses another API.
"""
