"""Calls every operation of a document once with values made from its schemas, and checks the request at the twin."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from multidict import CIMultiDict, CIMultiDictProxy
from pydantic import JsonValue, SecretStr

from executor_svc.adapters.http.conformance import checker_of
from executor_svc.adapters.http.digest import Digest
from executor_svc.adapters.http.request import BadRequest, Credentials, build_request
from executor_svc.adapters.http.transport import Reply
from executor_svc.secret_store import Login
from services.contracts.api import LOGINS, Api, Location, SecretKind
from services.media_types import is_json
from twin.access import TOKEN_PATH, UNSUPPORTED, USER
from twin.received import Received
from twin.service import Answer, Twin
from twin.values import example_of

TOKEN = "a-token-of-the-twins"


@dataclass(frozen=True)
class Tried:
    """The result of a call. ``problem`` is why it was not accepted; ``broken`` is what is wrong with its answer."""

    api: Api
    kind: str
    problem: str = ""
    broken: tuple[str, ...] = ()


def credentials_of(api: Api, twin: Twin) -> Credentials:
    """The credentials of the operation's first alternative, as the executor presents them."""
    places: dict[Location, dict[str, str]] = {place: {} for place in Location}
    headers, digest = places[Location.HEADER], None
    for need in api.security[0] if api.security else ():
        if need.kind is SecretKind.API_KEY and need.location is not None and need.parameter:
            places[need.location][need.parameter] = TOKEN
        elif need.kind is SecretKind.BASIC:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
        elif need.kind is SecretKind.DIGEST:
            digest = Digest(Login(username=USER, password=SecretStr(TOKEN), hosts=("twin",)))
        elif need.kind in LOGINS and need.token_url:
            form = f"grant_type=client_credentials&client_id={USER}&client_secret={TOKEN}".encode()
            given = twin.answer(Received("POST", TOKEN_PATH, "", {}, form))
            headers["Authorization"] = f"Bearer {json.loads(given.body)['access_token']}"
        else:
            headers["Authorization"] = f"Bearer {TOKEN}"
    query, cookies, path, body = (
        places[one] for one in (Location.QUERY, Location.COOKIE, Location.PATH, Location.BODY)
    )
    return Credentials(headers, query, cookies, path, body, digest=digest)


def send(api: Api, twin: Twin, arguments: Mapping[str, JsonValue]) -> Answer:
    """Send a call to the twin as the executor would. Raises BadRequest if the executor would not send it."""
    request, shown = build_request(api, arguments, "key"), credentials_of(api, twin)
    url, body = request.url(shown), request.whole_body(shown)

    def once() -> Answer:
        headers = {name.lower(): value for name, value in request.all_headers(shown).items()}
        content = b"" if body is None else body.content
        return twin.answer(Received(api.method, url.raw_path, url.raw_query_string, headers, content))

    answer = once()
    if shown.digest is None or answer.status != 401:
        return answer
    asked = Reply(answer.status, CIMultiDictProxy(CIMultiDict(answer.headers)), b"", truncated=False)
    return once() if shown.digest.challenged(api.method, url, asked) else answer


def required_arguments(api: Api) -> dict[str, JsonValue]:
    """A value for each required argument, made from its schema."""
    wanted = [one for one in api.parameters if one.required]
    return {one.name: example_of(one.json_schema, one.wire_name, api.definitions) for one in wanted}


def try_all(apis: tuple[Api, ...]) -> Iterator[Tried]:
    """Call every operation of a service against its twin, deletions last."""
    twin = Twin(apis, TOKEN)
    for api in sorted(apis, key=lambda one: one.method == "DELETE"):
        if any(need.kind in UNSUPPORTED for one in api.security[:1] for need in one):
            yield Tried(api, "credential")
            continue
        try:
            answer = send(api, twin, required_arguments(api))
        except BadRequest as error:
            yield Tried(api, "not sent", str(error))
            continue
        if answer.status in (404, 409):  # a valid request for an item that does not exist
            yield Tried(api, "unknown")
        elif answer.status >= 400:
            yield Tried(api, "refused", json.loads(answer.body)["detail"])
        else:
            yield Tried(api, "accepted", broken=_broken(api, answer))


def _broken(api: Api, answer: Answer) -> tuple[str, ...]:
    checker = checker_of(api) if answer.body and is_json(answer.media_type) else None
    return () if checker is None else checker.violations(answer.status, json.loads(answer.body), answer.body)
