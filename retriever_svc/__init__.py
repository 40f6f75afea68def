"""The API catalogue: which APIs there are, and which of them a request needs.

Invariants:

- The SQL database is the source of truth. The index is derived from it, belongs to exactly one version of it, and is
  swapped as a whole: a search never sees a partial change, and every answer states its version.
- A search that starts after the answer to a change sees it; other replicas see it within ``version_check_s``.
- A text is embedded once per encoder: its vector is stored under the text's hash and read again at start.
- An import replaces a provider's APIs in one transaction, or changes nothing.
- An import reads text and never fetches: an operation that refers to files or other hosts is skipped.
- Exact ids, names and paths are always found, and ranked first.
"""
