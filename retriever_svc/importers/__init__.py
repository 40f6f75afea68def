"""API descriptions to APIs, without side effects: the text goes in; APIs, what was skipped and warnings come out.

``documents`` drives. ``reading`` parses within limits; ``openapi``, ``postman``, ``seal_tools`` and ``nestful`` each
recognise a format and bring it into the terms of OpenAPI 3 (an ``outline``), so that what follows knows one form only:
``refs`` walks local references, ``keywords`` and ``schemas`` bring schemas into JSON Schema 2020-12, ``parameters``,
``bodies``, ``security`` and ``servers`` read their parts, ``swagger`` rewrites those of Swagger 2.0, ``operations``
joins them. A document is hostile until read: what is wrong with it as a whole raises ``InvalidDocument``, what is wrong
with one operation skips that operation, and nothing is ever fetched.
"""

from retriever_svc.importers.documents import Imported, import_document
from retriever_svc.importers.limits import Limits
from retriever_svc.importers.operations import sealed

__all__ = ["Imported", "Limits", "import_document", "sealed"]
