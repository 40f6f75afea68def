"""The knowledge base of solved requests, and the Demo Selector (TPTU-v2, section 3.4).

A *task-level* demo shows how a whole request is solved; an *API-level* demo shows one API in use. For a request, the
selector answers with the task-level demos whose own requests are most similar, and fills the places left with API-level
demos of the APIs at hand.

Invariants:

- a demo's id is the hash of its query and plan, so adding one twice changes nothing;
- a text is encoded once per encoder: its vector is kept in SQL under (hash of the text, encoder's name);
- the version in SQL grows with every change; a selection first compares it with its snapshot's, so no replica ever
  answers from a stale knowledge base;
- a snapshot is immutable and swapped as a whole;
- no selected demo uses an API that the request did not offer, where it offered any.
"""
