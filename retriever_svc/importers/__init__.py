"""API descriptions to APIs, without side effects: the text goes in; APIs, what was skipped and warnings come out.

``reading`` parses within limits, ``refs`` walks local references, ``keywords`` and ``schemas`` bring schemas into JSON
Schema 2020-12, ``parameters``, ``bodies``, ``security`` and ``servers`` read their parts, ``operations`` joins them,
``swagger`` rewrites Swagger 2.0, ``openapi`` drives. A document is hostile until read: what is wrong with it as a whole
raises ``InvalidDocument``, what is wrong with one operation skips that operation, and nothing is ever fetched.
"""

from retriever_svc.importers.limits import Limits
from retriever_svc.importers.openapi import Imported, import_document
from retriever_svc.importers.operations import sealed

__all__ = ["Imported", "Limits", "import_document", "sealed"]
