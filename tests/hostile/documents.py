"""Broken, enormous or malicious documents, each with the expected result of its import.

``DOCUMENTS`` maps names to :class:`Hostile`. The part of a name before the first blank is its family. Large documents
are made on demand.
"""

from tests.hostile.openapi_documents import (
    addresses,
    amplifiers,
    bombs,
    circles,
    depths,
    duplicates,
    encodings,
    gaps,
    injections,
    patterns,
    references,
    scripts,
    sizes,
    versions,
)
from tests.hostile.tool_documents import collections, tools

_FAMILIES = (
    circles, depths, bombs, references, duplicates, gaps, versions, sizes, amplifiers, encodings, scripts, injections,
    addresses, patterns, collections, tools,
)  # fmt: skip
FAMILIES = tuple(family.__name__ for family in _FAMILIES)
DOCUMENTS = {f"{family.__name__} {name}": hostile for family in _FAMILIES for name, hostile in family()}
