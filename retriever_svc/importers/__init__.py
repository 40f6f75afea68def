"""Turns API descriptions into APIs, without side effects: a text becomes APIs, skipped operations and warnings.

``documents`` controls the import. ``reading`` parses within limits. ``openapi``, ``postman``, ``seal_tools`` and
``nestful`` each recognise a format and convert it to the terms of OpenAPI 3 (an ``outline``), so that the other modules
handle one form only: ``refs`` follows local references, ``keywords`` and ``schemas`` convert schemas to JSON Schema
2020-12, ``parameters``, ``bodies``, ``security`` and ``servers`` read their parts, ``swagger`` rewrites those of
Swagger 2.0, and ``operations`` joins them. A document is untrusted: an error in the document as a whole raises
``InvalidDocument``, an error in one operation skips that operation, and nothing is ever fetched.
"""

from retriever_svc.importers.documents import Imported, import_document
from retriever_svc.importers.limits import Limits
from retriever_svc.importers.operations import with_content_hash

__all__ = ["Imported", "Limits", "import_document", "with_content_hash"]
