"""A twin: answers requests. It makes no requests itself."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue
from pydantic_core import to_json

from services.contracts.api import Api, Location
from services.media_types import is_json
from twin.access import Access
from twin.endpoints import Collection, Collections, Endpoint, Role, Template, form_of
from twin.listing import matching, paged
from twin.problems import Refused
from twin.received import Received
from twin.routes import Routes
from twin.schemas import fits, kinds_of, members, plain, resolved, singular
from twin.shapes import ItemLocation, at, last_page, locate_item, overlay, put
from twin.state import Item, Place, State
from twin.values import example_of
from twin.wire import Reader

_OWN_IDS: Final = frozenset({"me", "self", "current", "default", "primary", "-", "~", "@me"})
"""Ids that mean the caller's own."""
_MAX_CALLS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. ``body`` is empty if there is none."""

    status: int
    media_type: str = "application/json"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """An answered request: the operation's id (empty if none matched), the status, and the reason of a refusal."""

    api: str
    status: int
    problem: str = ""


class Twin:
    """A service made from its operations.

    Args:
        apis: the operations of one service.
        token: the secret that callers must present if operations require credentials; at least 8 characters.
        seed: the seed of generated data.

    Attributes:
        calls: the most recent requests and their results.
    """

    def __init__(self, apis: Iterable[Api], token: str, seed: int = 0) -> None:
        self._apis = tuple(apis)
        self.access = Access(self._apis, token)
        self.calls: deque[Call] = deque(maxlen=_MAX_CALLS)
        self._routes, self._collections = Routes(self._apis), Collections(self._apis)
        self._seed = seed
        self._state = State(self._collections, seed)
        self._readers: dict[str, Reader] = {}

    def reset(self) -> None:
        """Reset the state, as after a start. Issued tokens stay valid."""
        self._state = State(self._collections, self._seed)
        self.calls.clear()

    def preset(self, path: str, fields: Mapping[str, JsonValue]) -> bool:
        """Add an item as if it had always existed, at the path where it is read. False if the path is unknown."""
        found = self._item_at(path)
        if found is None:
            return False
        collection, place, identifier = found
        self._state.preset(collection, place, self._resolved_id(collection, place, identifier), fields)
        return True

    def answer(self, request: Received) -> Answer:
        """Answer a request. An invalid request gets a 4xx with problem details."""
        api = ""
        try:
            if self.access.issues(request):
                return _json(200, self.access.issue(request))
            match = self._routes.find(request.method, request.path, request.query)
            api = match.api.id
            self.access.check(match.api, request, match.values)
            reader = self._readers.setdefault(api, Reader(match.api))
            arguments = reader.arguments(request, match.values)
            answer = self._act(self._collections.endpoints[api], match.values, arguments)
        except Refused as refused:
            return self.refuse(refused, api)
        self.calls.append(Call(api, answer.status))
        return answer

    def refuse(self, refused: Refused, api: str = "") -> Answer:
        """The answer for a refusal, which is also added to ``calls``."""
        self.calls.append(Call(api, refused.status, refused.detail))
        return _json(refused.status, refused.problem(), "application/problem+json", refused.headers)

    def _act(self, endpoint: Endpoint, values: Mapping[str, str], arguments: Mapping[str, JsonValue]) -> Answer:
        place = self._resolved_place(endpoint, _place(endpoint.template, values))
        if endpoint.collection is None:
            return self._other(endpoint, place, arguments)
        above = place[: endpoint.above]
        if endpoint.role is Role.LIST:
            return self._list(endpoint, endpoint.collection, above, arguments)
        if endpoint.role is Role.CREATE:
            return self._shown(endpoint, self._state.add(endpoint.collection, above, _fields(endpoint, arguments)))
        identifier = (
            place[endpoint.above] if len(place) > endpoint.above else str(arguments.get(endpoint.id_name or "", ""))
        )
        return self._one(endpoint, endpoint.collection, above, identifier, arguments)

    def _one(
        self,
        endpoint: Endpoint,
        collection: Collection,
        above: Place,
        identifier: str,
        arguments: Mapping[str, JsonValue],
    ) -> Answer:
        identifier = self._resolved_id(collection, above, identifier)
        item = self._state.find(collection, above, identifier)
        if item is None and endpoint.api.method == "PUT" and not collection.creates:
            return self._shown(endpoint, self._state.keep(collection, above, identifier, _fields(endpoint, arguments)))
        if item is None:
            raise Refused(404, f"there is no {collection.noun} with the id {identifier[:100]!r}")
        if endpoint.role is Role.DELETE:
            self._state.remove(collection, above, identifier)
        elif endpoint.role is Role.CHANGE:
            item = self._state.preset(collection, above, identifier, merged_fields(item, _fields(endpoint, arguments)))
        return self._shown(endpoint, item)

    def _resolved_id(self, collection: Collection, place: Place, identifier: str) -> str:
        """An item's id. A word such as `me` means the first item, unless an item has that id."""
        items = self._state.items(collection, place) if identifier.lower() in _OWN_IDS else {}
        return identifier if identifier in items else next(iter(items), identifier)

    def _resolved_place(self, endpoint: Endpoint, place: Place) -> Place:
        """The path with words such as `me` replaced by ids. Raises Refused (404) if an item on it does not exist."""
        form = form_of(endpoint.template)
        last = len(form) if endpoint.collection is None else endpoint.above
        for index in range(last):
            collection = self._collections.find(form[:index]) if endpoint.template[index].names else None
            if collection is None:
                continue
            above, identifier = place[:index], self._resolved_id(collection, place[:index], place[index])
            if collection.closed and self._state.find(collection, above, identifier) is None:
                raise Refused(404, f"there is no {collection.noun} with the id {identifier[:100]!r}")
            place = (*above, identifier, *place[index + 1 :])
        return place

    def _list(
        self, endpoint: Endpoint, collection: Collection, place: Place, arguments: Mapping[str, JsonValue]
    ) -> Answer:
        api, location = endpoint.api, endpoint.location
        assert location is not None
        given = {one.wire_name: arguments[one.name] for one in api.parameters if one.name in arguments}
        found = matching(list(self._state.items(collection, place).values()), given)
        shown = [self._in_list(item, location, api, collection) for item in paged(found, given)]
        answer = example_of(api.response.json_schema, api.name, api.definitions)
        return _answer(api, put(last_page(answer, len(found), location.path), location.path, list(shown)))

    def _in_list(self, item: Item, location: ItemLocation, api: Api, collection: Collection) -> JsonValue:
        kinds = kinds_of(location.schema, api.definitions)
        if kinds and "object" not in kinds:
            return (
                item.get(collection.key)
                if collection.key
                else example_of(location.schema, collection.noun, api.definitions)
            )
        inner = locate_item(location.schema, api.definitions, collection.noun) or location
        way = inner.path if inner is not location else ()
        made = example_of(location.schema, collection.noun, api.definitions)
        return put(made, way, overlay(at(made, way), item, inner.schema, api.definitions))

    def _shown(self, endpoint: Endpoint, item: Item) -> Answer:
        api = endpoint.api
        made = example_of(api.response.json_schema, api.name, api.definitions)
        if endpoint.location is None:
            return _answer(api, made if api.response.json_schema else item)
        path = endpoint.location.path
        return _answer(api, put(made, path, overlay(at(made, path), item, endpoint.location.schema, api.definitions)))

    def _other(self, endpoint: Endpoint, place: Place, arguments: Mapping[str, JsonValue]) -> Answer:
        """Answer an operation without a collection: from its schema, with the arguments in the fields that fit."""
        api, fields = endpoint.api, _fields(endpoint, arguments)
        if api.method == "DELETE":
            self._state.erase(place)
        elif api.mutating:
            self._state.write(place, fields)
        made = example_of(api.response.json_schema, api.name, api.definitions)
        named = {one.wire_name: arguments[one.name] for one in api.parameters if one.name in arguments}
        shown = {**named, **self._of_parent(endpoint, place, fields), **self._state.written(place)}
        location = locate_item(api.response.json_schema, api.definitions, singular(plain(endpoint.template[-1].noun)))
        if location is None:
            return _answer(api, made if api.response.json_schema else dict(shown))
        if not members(location.schema.get("properties")):
            return _answer(api, made)
        return _answer(
            api, put(made, location.path, overlay(at(made, location.path), shown, location.schema, api.definitions))
        )

    def _of_parent(self, endpoint: Endpoint, place: Place, fields: Item) -> Item:
        """The item that an action applies to, with its changes, if the answer shows that item; otherwise empty."""
        index = next((at for at in range(len(place) - 1, -1, -1) if endpoint.template[at].names), None)
        collection = self._collections.find(form_of(endpoint.template)[:index]) if index is not None else None
        if index is None or collection is None:
            return {}
        known = members(resolved(collection.schema, collection.definitions).get("properties"))
        location = locate_item(endpoint.api.response.json_schema, endpoint.api.definitions, collection.noun)
        answered = members(location.schema.get("properties")) if location is not None else {}
        if not known or 2 * len(known.keys() & answered.keys()) < len(known):
            return {}
        item = self._state.find(collection, place[:index], place[index]) or {}
        if not endpoint.api.mutating:
            return item
        changed = {name: value for name, value in fields.items() if name in known}
        kept = {
            name: value for name, value in changed.items() if fits(value, kinds_of(known[name], collection.definitions))
        }
        return self._state.preset(collection, place[:index], place[index], merged_fields(item, kept))

    def _item_at(self, path: str) -> tuple[Collection, Place, str] | None:
        """Collection, its path, and id of the item at a path. The path may omit the server's path."""
        *above, last = path.strip("/").split("/")
        for collection in self._collections:
            prefix = len(collection.template) - len(above)
            ahead, template = collection.template[: max(prefix, 0)], collection.template[max(prefix, 0) :]
            if prefix < 0 or not above or any(part.names for part in ahead):
                continue
            read = [
                part.read(text) if part.names else {} if part.noun == unquote(text) else None
                for part, text in zip(template, above, strict=True)
            ]
            if all(values is not None for values in read):
                values = {name: value for found in read for name, value in (found or {}).items()}
                return collection, _place(collection.template, values), re.sub(r"\.(json|xml)$", "", unquote(last))
        return None


def merged_fields(item: Item, fields: Mapping[str, JsonValue]) -> Item:
    """The item's fields, overwritten by the given ones."""
    return {**item, **fields}


def _place(template: Template, values: Mapping[str, str]) -> Place:
    """A concrete path: nouns, and the decoded values of parameters."""
    return tuple(
        ",".join(unquote(values.get(name, "")) for name in part.names) if part.names else part.noun for part in template
    )


def _fields(endpoint: Endpoint, arguments: Mapping[str, JsonValue]) -> Item:
    """The item's fields in the arguments. An object that only wraps the item is unwrapped."""
    found: Item = {}
    for one in endpoint.api.parameters:
        if one.name not in arguments or one.location not in (Location.BODY, Location.QUERY):
            continue
        value = arguments[one.name]
        is_body = one.location is Location.BODY and endpoint.api.body is not None and endpoint.api.body.whole
        found |= value if is_body and isinstance(value, dict) else {one.wire_name: value}
    noun = endpoint.collection.noun if endpoint.collection is not None else ""
    wrappers = {
        noun,
        "data",
        *(str(step) for step in (endpoint.location.path if endpoint.location is not None else ())),
    }
    inner = [value for name, value in found.items() if singular(plain(name)) in wrappers or name in wrappers]
    return _as_shown(dict(inner[0]) if len(inner) == 1 and isinstance(inner[0], dict) else found, endpoint)


def _as_shown(found: Item, endpoint: Endpoint) -> Item:
    """The fields under the item's own names: `FriendlyName` in a request becomes `friendly_name`."""
    if endpoint.collection is None:
        return found
    known = members(resolved(endpoint.collection.schema, endpoint.collection.definitions).get("properties"))
    shown = {plain(name): name for name in known}
    return {name if name in known else shown.get(plain(name), name): value for name, value in found.items()}


def _answer(api: Api, value: JsonValue) -> Answer:
    """The answer in the operation's media type."""
    said = api.response
    if said.status in (204, 205, 304) or said.media_type is None or api.method == "HEAD":
        return Answer(said.status)
    if is_json(said.media_type):
        return _json(said.status, value, said.media_type)
    if isinstance(value, dict) and value.keys() == {"media_type", "base64"}:
        value = None
    text = value if isinstance(value, str) else to_json(value).decode() if value is not None else api.name
    return Answer(said.status, said.media_type if "*" not in said.media_type else "text/plain", text.encode())


def _json(
    status: int, value: JsonValue, media_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Answer:
    return Answer(status, media_type, to_json(value), dict(headers or {}))
