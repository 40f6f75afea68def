"""Makes documents that are broken, enormous or malicious, and says of each what must become of it.

``DOCUMENTS`` maps names to :class:`Hostile`; the part of a name before the first blank is its family. Large ones are
made when they are asked for.
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
