"""Builds an HTTP request from an API operation and its arguments. Credentials are added when it is sent."""

import re
import ssl
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Final
from urllib.parse import quote, unquote

from pydantic import JsonValue
from yarl import URL

from executor_svc.adapters.http.body import Body, as_document, build_body, check_length, with_fields
from executor_svc.adapters.http.digest import Digest
from executor_svc.adapters.http.serialise import (
    Unserialisable,
    bounded,
    cookie_pairs,
    header_text,
    path_text,
    query_pairs,
    without,
)
from executor_svc.adapters.http.sigv4 import signed
from executor_svc.masking import Masker
from executor_svc.secret_store import AwsKey
from services.contracts.api import Api, Location, Parameter
from services.contracts.outcome import RequestRecord
from services.contracts.plan import content_hash
from services.urls import url_of

MAX_URL_CHARS: Final = 64 * 1024
_MAX_VALUE_BYTES: Final = 4 * MAX_URL_CHARS
"""JSON of a value in a URL, a header or a cookie. It takes a quarter of that there at least."""
MAX_RECORDED_BYTES: Final = 64 * 1024
_EXPRESSION = re.compile(r"\{([^{}]+)\}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECODINGS: Final = 5
_PATH_SAFE: Final = "/:@!$&'()*+,;=~%"
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})
_RESERVED_HEADERS: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"),
        *("expect", "proxy-authorization", "proxy-connection", "accept-encoding"),
    }
)


class BadRequest(ValueError):
    """The request cannot be built from these arguments. The message names the argument and the reason."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials that a call presents. Their values must never be recorded.

    Attributes:
        token: the OAuth2 access token among them.
        aws: the key to sign the request with.
        digest: answers the server's challenge.
        tls: how to connect with a client certificate.
        secrets: all secret texts in these credentials, to be masked.
        names: the names of the secrets that they come from.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    path: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str | None = field(default=None, repr=False)
    aws: AwsKey | None = field(default=None, repr=False)
    digest: Digest | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    names: tuple[str, ...] = ()

    def hidden(self) -> "Credentials":
        """These credentials with every value masked."""
        parts = (self.headers, self.query, self.cookies, self.path, self.body)
        headers, query, cookies, path, body = (dict.fromkeys(part, "***") for part in parts)
        if self.aws is not None or self.digest is not None:
            headers["Authorization"] = "***"
        return Credentials(headers, query, cookies, path, body)


@dataclass(frozen=True)
class HttpRequest:
    """A request without its credentials. ``query`` and ``cookies`` are encoded ``name=value`` pairs.

    If a key belongs in the path, the path holds its name in braces. Braces occur nowhere else in the path.
    """

    method: str
    origin: URL
    path: str
    query: tuple[str, ...]
    headers: Mapping[str, str]
    cookies: tuple[str, ...]
    body: Body | None

    def url(self, credentials: Credentials) -> URL:
        """The whole URL, exactly as it is sent."""
        return URL(self.url_text(credentials), encoded=True)

    def url_text(self, credentials: Credentials) -> str:
        """The whole URL as text. A credential replaces query parameters of the same name."""
        url = self._bare_url
        if credentials.query:
            keys = (f"{quote(k, safe='')}={quote(v, safe='*')}" for k, v in credentials.query.items())
            url = self._with_query([*without(self.query, credentials.query), *keys])
        for name, value in credentials.path.items():
            url = url.replace(f"{{{name}}}", quote(value, safe="*"))
        return url

    @cached_property
    def _bare_url(self) -> str:
        return self._with_query(self.query)

    def _with_query(self, pairs: Sequence[str]) -> str:
        query = "?" + "&".join(pairs) if pairs else ""
        return f"{str(self.origin).rstrip('/')}{self.path}{query}"

    @property
    def body_bytes(self) -> int:
        """The size of the body, without credentials."""
        return 0 if self.body is None else len(self.body.content)

    def whole(self, credentials: Credentials) -> tuple[URL, dict[str, str], bytes | None]:
        """The URL, the headers and the body, with the credentials, as they are sent."""
        body = self.whole_body(credentials)
        return self.url(credentials), self.all_headers(credentials), None if body is None else body.content

    def whole_body(self, credentials: Credentials) -> Body | None:
        """The body, with the keys that are sent in it."""
        return self.body if self.body is None else with_fields(self.body, credentials.body)

    def all_headers(self, credentials: Credentials) -> dict[str, str]:
        """All headers, with cookies and the body's type. A credential replaces an argument of the same name."""
        headers = dict(self.headers)
        if credentials.headers:
            replaced = {name.lower() for name in credentials.headers}
            headers = {name: value for name, value in headers.items() if name.lower() not in replaced}
            headers |= credentials.headers
        if self.cookies or credentials.cookies:
            pairs = (f"{name}={value}" for name, value in credentials.cookies.items())
            headers["Cookie"] = "; ".join([*without(self.cookies, credentials.cookies), *pairs])
        if self.body is not None:
            headers["Content-Type"] = self.body.media_type
        if credentials.aws is not None:
            body = self.whole_body(credentials)
            content = b"" if body is None else body.content
            headers |= signed(credentials.aws, self.method, self.url(credentials), headers, content, datetime.now(UTC))
        if credentials.digest is not None:
            answer = credentials.digest.header(self.method, self.url(credentials))
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers |= {} if answer is None else {"Authorization": answer}
        return headers

    def record(self, credentials: Credentials, masker: Masker, *, whole: bool = False) -> RequestRecord:
        """The request for people to read. Masks credentials in their places, and with ``masker`` anywhere else.

        A large body is left out unless ``whole``.

        The masker must know only the secrets that this call presents. Otherwise it would confirm a guessed secret to
        the author of the arguments.
        """
        hidden = credentials.hidden()
        body: JsonValue = None
        if not whole and self.body_bytes > MAX_RECORDED_BYTES:
            body = f"({self.body_bytes} bytes, not kept)"
        elif (shown := self.whole_body(hidden)) is not None:
            body = shown.recorded
        return RequestRecord.model_construct(
            method=self.method,
            url=masker.text(self.url_text(hidden)),
            headers={name: masker.text(value) for name, value in self.all_headers(hidden).items()},
            body=masker.json(body),
        )


def build_request(api: Api, arguments: Mapping[str, JsonValue], call_key: str) -> HttpRequest:
    """Build the request. An argument of null counts as not given, except in a body; a constant replaces it.

    ``call_key`` identifies the call. If the API takes an `Idempotency-Key`, it is derived from ``call_key``.

    Raises:
        BadRequest: an argument is unknown, missing, or cannot be sent in its location; or the server is not an HTTP
            origin.
    """
    arguments = _with_constants(api, arguments)
    _check_names(api, arguments)
    origin, prefix = _server(api.server)
    keys = {(need.location, need.parameter) for alternative in api.security for need in alternative}
    path, fixed_query = _path(api, arguments, {name for place, name in keys if place is Location.PATH and name})
    query, headers, cookies = list(fixed_query), _accept(api), list[str]()
    for parameter in api.parameters:
        value = arguments.get(parameter.name)
        if value is None or parameter.location in (Location.PATH, Location.BODY):
            continue
        with _ArgumentErrors(parameter):
            check_length(value, _MAX_VALUE_BYTES)
            value = as_document(parameter, value)
            if parameter.location is Location.QUERY:
                pairs = query_pairs(parameter.wire_name, value, parameter.style, parameter.explode)
                query += bounded(pairs, MAX_URL_CHARS)
            elif parameter.location is Location.COOKIE:
                cookies += bounded(cookie_pairs(parameter.wire_name, value, parameter.explode), MAX_URL_CHARS)
            else:
                _add_header(headers, parameter, value)
    if api.idempotency_header:
        headers[_header_name(api.idempotency_header)] = idempotency_key(call_key)
    try:
        body = build_body(api, arguments, needed=any(place is Location.BODY for place, _ in keys))
        if body is not None and any(place is Location.BODY for place, _ in keys):
            with_fields(body, {"": ""})  # raises now, before anything is sent, if the body has no fields
    except Unserialisable as error:
        raise BadRequest(f"the body cannot be sent: {error}") from None
    request = HttpRequest(api.method, origin, prefix + path, tuple(query), headers, tuple(cookies), body)
    _check_url(request.url_text(Credentials()))
    return request


def _check_url(text: str) -> None:
    """Raises BadRequest if a URL, or a part of one, is too long."""
    if len(text) > MAX_URL_CHARS:
        raise BadRequest(f"the URL would be longer than {MAX_URL_CHARS} characters")


def origin_of(api: Api) -> str:
    """The origin of an API's server; empty if it cannot be called."""
    try:
        return str(_server(api.server)[0])
    except BadRequest:
        return ""


def idempotency_key(call_key: str) -> str:
    """The `Idempotency-Key` of a call: the same for all of its attempts, and unique to it."""
    return content_hash(call_key)[:32]


class _ArgumentErrors:
    """Turns a serialiser's exception into a BadRequest that names the argument."""

    def __init__(self, parameter: Parameter) -> None:
        self._name = parameter.name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Unserialisable):
            raise BadRequest(f"argument {self._name!r} cannot be sent: {error}") from None


def _with_constants(api: Api, arguments: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The arguments, with the constants of the parameters that have no argument."""
    constants = {
        one.name: one.constant
        for one in api.parameters
        if one.constant is not None
        and (one.name not in arguments or (arguments[one.name] is None and one.location is not Location.BODY))
    }
    return {**arguments, **constants} if constants else arguments


def _check_names(api: Api, arguments: Mapping[str, JsonValue]) -> None:
    known = {parameter.name for parameter in api.parameters}
    if unknown := sorted(arguments.keys() - known):
        raise BadRequest(f"{api.id} takes no argument {unknown[0]!r}")
    for parameter in api.parameters:
        if parameter.required and parameter.name not in arguments:
            raise BadRequest(f"{api.id} needs the argument {parameter.name!r}")


@lru_cache(maxsize=1024)
def _server(server: str) -> tuple[URL, str]:
    try:
        url = url_of(server)
        usable = url.scheme in ("http", "https") and url.raw_host and url.port
        # Requests are built from the origin's text, so the text must parse to the origin that was checked.
        usable = usable and url_of(str(url.origin())) == url.origin()
    except ValueError:
        raise BadRequest("the API's server is not a URL") from None
    if not usable:
        raise BadRequest("the API's server is not an http or https URL")
    if url.user is not None or url.password is not None or url.query_string or url.fragment:
        raise BadRequest("the API's server must not hold a user, a query or a fragment")
    return url.origin(), url.raw_path.rstrip("/")


def _path(api: Api, arguments: Mapping[str, JsonValue], keys: Set[str]) -> tuple[str, tuple[str, ...]]:
    """The path with its parameters filled in, and the query that the document's path itself holds.

    ``keys`` are the names of credentials; they stay in the path as placeholders.
    """
    segments, query = _template(api.path)
    parameters = {p.wire_name: p for p in api.parameters if p.location is Location.PATH}
    path = ""
    for segment in segments:  # looks at the length each time: a document may name a parameter a thousand times
        path += "/" + _segment(segment, parameters, arguments, keys)
        _check_url(path)
    return path[1:], query


@dataclass(frozen=True, slots=True)
class _Segment:
    """The part between two slashes: percent-encoded ``texts`` around the parameters called ``names``."""

    texts: tuple[str, ...]
    names: tuple[str, ...]


@lru_cache(maxsize=512)  # a path of 1,000 characters takes 50 kB
def _template(path: str) -> tuple[tuple[_Segment, ...], tuple[str, ...]]:
    """Split a document's path into its segments and the pairs of its query."""
    template, _, query = path.partition("#")[0].partition("?")
    parts = [_EXPRESSION.split(segment) for segment in template.split("/")]
    segments = tuple(_Segment(tuple(quote(t, safe=_PATH_SAFE) for t in part[::2]), tuple(part[1::2])) for part in parts)
    return segments, tuple(quote(pair, safe=_PATH_SAFE) for pair in query.split("&") if pair)


def _segment(
    segment: _Segment, parameters: Mapping[str, Parameter], arguments: Mapping[str, JsonValue], keys: Set[str]
) -> str:
    """One segment. Whatever its arguments are, it stays one segment: it is not empty, not split, and not `..`."""
    text = segment.texts[0]
    for name, literal in zip(segment.names, segment.texts[1:], strict=True):
        is_key = name in keys and name not in parameters
        text += (f"{{{name}}}" if is_key else _expanded(name, parameters, arguments)) + literal
        _check_url(text)
    # Many servers and proxies remove dot segments even if these are encoded: RFC 3986, section 5.2.4, after decoding.
    if ("." in text or "%" in text) and _has_dots(text):
        raise BadRequest("an argument in the path must not hold the segments '.' or '..'")
    return text


def _has_dots(text: str) -> bool:
    """Whether a server may see a dot segment here, for example after repeated decoding or before a matrix parameter."""
    for _ in range(_DECODINGS):
        decoded = unquote(text)
        if decoded == text:
            break
        text = decoded
    return any(part.partition(";")[0] in (".", "..") for part in re.split(r"[/\\]", text))


def _expanded(name: str, parameters: Mapping[str, Parameter], arguments: Mapping[str, JsonValue]) -> str:
    parameter = parameters.get(name)
    if parameter is None:
        raise BadRequest(f"the path needs {name!r}, which the API does not declare")
    value = arguments.get(parameter.name)
    if value is None or value == "" or value == [] or value == {}:
        raise BadRequest(f"argument {parameter.name!r} is part of the path and must not be empty")
    with _ArgumentErrors(parameter):
        check_length(value, _MAX_VALUE_BYTES)
        text = path_text(parameter.wire_name, as_document(parameter, value), parameter.style, parameter.explode)
    if not text:  # a list of empty texts
        raise BadRequest(f"argument {parameter.name!r} is part of the path and must not be empty")
    return text


def _accept(api: Api) -> dict[str, str]:
    wanted = api.response.media_type
    return {"Accept": f"{wanted}, */*;q=0.1" if wanted and wanted.isprintable() and wanted != "*/*" else "*/*"}


def is_settable_header(name: str) -> bool:
    """Whether a request may set this header: its name is a token (RFC 9110, section 5.6.2) and not reserved here."""
    return _TOKEN.fullmatch(name) is not None and name.lower() not in _RESERVED_HEADERS


def _header_name(name: str) -> str:
    if not is_settable_header(name):
        raise BadRequest(f"{name!r} cannot be set as a header")
    return name


def _add_header(headers: dict[str, str], parameter: Parameter, value: JsonValue) -> None:
    if parameter.wire_name.lower() not in _IGNORED_HEADERS:  # OpenAPI 3.1, section 4.8.12.2.1
        headers[_header_name(parameter.wire_name)] = header_text(value, parameter.explode)
