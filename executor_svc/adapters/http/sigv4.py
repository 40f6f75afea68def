"""AWS Signature Version 4, for requests whose whole body is in memory.

botocore implements it too, but has fifteen megabytes and signs only its own request objects (ADR 13).
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote

from yarl import URL

from executor_svc.secret_store import AwsKey

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+")
_DEFAULT_REGION: Final = "us-east-1"
_UNRESERVED: Final = "-_.~"
_RENAMED: Final = {"email": "ses"}
"""Services whose signing name differs from the name in their endpoint."""


def signed(
    key: AwsKey, method: str, url: URL, headers: Mapping[str, str], body: bytes, now: datetime
) -> dict[str, str]:
    """The headers that sign a request.

    Args:
        key: the key to sign with.
        method: the request's method.
        url: the URL exactly as it is sent.
        headers: the request's headers; only the content type is signed.
        body: the request's body; empty if there is none.
        now: the time of signing.
    """
    region, service = _scope(key, url.raw_host or "")
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    added = {"X-Amz-Date": stamp, "X-Amz-Content-Sha256": digest}
    if key.session_token is not None:
        added["X-Amz-Security-Token"] = key.session_token.get_secret_value()
    default = url.port == {"http": 80, "https": 443}.get(url.scheme)
    host = (url.host_subcomponent or "") + ("" if default else f":{url.port}")
    typed = {name: value for name, value in headers.items() if name.lower() == "content-type"}
    canonical = {name.lower(): " ".join(value.split()) for name, value in {**typed, **added, "Host": host}.items()}
    names = ";".join(sorted(canonical))
    lines = [f"{name}:{canonical[name]}" for name in sorted(canonical)]
    request = "\n".join([method, _path(url, service), _query(url), *lines, "", names, digest])
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    derived = f"AWS4{key.secret_access_key.get_secret_value()}".encode()
    for part in scope.split("/"):
        derived = _mac(derived, part)
    signature = _mac(derived, to_sign).hex()
    proof = f"{_ALGORITHM} Credential={key.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**added, "Authorization": proof}


def _scope(key: AwsKey, host: str) -> tuple[str, str]:
    """Region and service, from the secret's entry or else from the host (``service.region.amazonaws.com``)."""
    labels = [label for label in host.lower().split(".") if label not in ("amazonaws", "com", "cn", "dualstack")]
    region = next((label for label in labels if _REGION.fullmatch(label)), _DEFAULT_REGION)
    named = [label for label in labels if label != region]
    service = named[-1] if named else ""
    return key.region or region, key.service or _RENAMED.get(service, service)


def _path(url: URL, service: str) -> str:
    """The canonical path. Each segment is encoded a second time, except for S3."""
    path = url.raw_path or "/"
    return quote(unquote(path), safe=f"/{_UNRESERVED}") if service == "s3" else quote(path, safe=f"/{_UNRESERVED}")


def _query(url: URL) -> str:
    pairs = [pair.partition("=") for pair in url.raw_query_string.split("&") if pair]
    encoded = [(quote(unquote(k), safe=_UNRESERVED), quote(unquote(v), safe=_UNRESERVED)) for k, _, v in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
