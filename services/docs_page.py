"""The page at `/docs`: Swagger UI in a pinned version. The browser checks the hash of each file before it uses it."""

import base64
import hashlib
from html import escape
from typing import Final

from fastapi.responses import HTMLResponse

_FROM: Final = "https://cdn.jsdelivr.net/npm/swagger-ui-dist@5.17.14/"
_SCRIPT: Final = ("swagger-ui-bundle.js", "sha384-wmyclcVGX/WhUkdkATwhaK1X1JtiNrr2EoYJ+diV3vj4v6OC5yCeSu+yW13SYJep")
_STYLE: Final = ("swagger-ui.css", "sha384-wxLW6kwyHktdDGr6Pv1zgm/VGJh99lfUbzSn6HNHBENZlCN7W602k9VkGdxuFvPn")
_BEGIN: Final = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true})'
_BEGIN_HASH: Final = base64.b64encode(hashlib.sha256(_BEGIN.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; script-src {_FROM} 'sha256-{_BEGIN_HASH}'; style-src {_FROM} 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def docs_page(title: str) -> HTMLResponse:
    """The page. It loads the OpenAPI document from `openapi.json`, relative to its own address."""
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{escape(title)}</title>
<link rel="stylesheet" href="{_FROM}{_STYLE[0]}" integrity="{_STYLE[1]}" crossorigin="anonymous">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{_FROM}{_SCRIPT[0]}" integrity="{_SCRIPT[1]}" crossorigin="anonymous"></script>
<script>{_BEGIN}</script>
</body>
</html>
"""
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"})
