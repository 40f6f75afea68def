"""The API catalogue: what there is to call, and which of it a request needs.

Invariants:

- SQL is the record. The index is derived from it, belongs to exactly one version of it, and is swapped in whole: a
  search never sees half a change, and every answer says which version it is of.
- A change is searchable before its answer is sent; other replicas see it within ``version_check_s``.
- A text is embedded once per encoder: vectors are stored under its hash and read again at start.
- An import replaces a provider's APIs in one transaction, or changes nothing.
- Importing reads text. It never fetches: references to files or other hosts skip the operation that has them.
- Exact ids, names and paths are always found, first.
"""
