"""A twin: answers requests. It makes no requests itself."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

import orjson
from pydantic import JsonValue

from services.contracts.api import Api, Location
from services.media_types import is_json
from twin.access import Access
from twin.families import Deed, Families, Family, Role, Template, form_of
from twin.listing import matching, paged
from twin.problems import Refused
from twin.received import Received
from twin.routes import Routes
from twin.schemas import fits, kinds_of, members, plain, resolved, singular
from twin.shapes import Spot, at, item_spot, laid_over, last_page, put
from twin.state import Item, Place, State
from twin.values import example_of
from twin.wire import Reader

_MINE: Final = frozenset({"me", "self", "current", "default", "primary", "-", "~", "@me"})
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
        self._routes, self._families = Routes(self._apis), Families(self._apis)
        self._seed = seed
        self._state = State(self._families, seed)
        self._readers: dict[str, Reader] = {}

    def forget(self) -> None:
        """Reset the state, as after a start. Issued tokens stay valid."""
        self._state = State(self._families, self._seed)
        self.calls.clear()

    def know(self, path: str, fields: Mapping[str, JsonValue]) -> bool:
        """Add an item as if it had always existed, at the path where it is read. False if the path is unknown."""
        found = self._item_at(path)
        if found is None:
            return False
        family, place, identifier = found
        self._state.know(family, place, self._own(family, place, identifier), fields)
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
            answer = self._act(self._families.deeds[api], match.values, arguments)
        except Refused as refused:
            return self.refuse(refused, api)
        self.calls.append(Call(api, answer.status))
        return answer

    def refuse(self, refused: Refused, api: str = "") -> Answer:
        """The answer for a refusal, which is also added to ``calls``."""
        self.calls.append(Call(api, refused.status, refused.detail))
        return _json(refused.status, refused.problem(), "application/problem+json", refused.headers)

    def _act(self, deed: Deed, values: Mapping[str, str], arguments: Mapping[str, JsonValue]) -> Answer:
        place = self._through(deed, _place(deed.template, values))
        if deed.family is None:
            return self._other(deed, place, arguments)
        above = place[: deed.above]
        if deed.role is Role.LIST:
            return self._list(deed, deed.family, above, arguments)
        if deed.role is Role.CREATE:
            return self._shown(deed, self._state.add(deed.family, above, _fields(deed, arguments)))
        identifier = place[deed.above] if len(place) > deed.above else str(arguments.get(deed.id_name or "", ""))
        return self._one(deed, deed.family, above, identifier, arguments)

    def _one(
        self, deed: Deed, family: Family, above: Place, identifier: str, arguments: Mapping[str, JsonValue]
    ) -> Answer:
        identifier = self._own(family, above, identifier)
        item = self._state.find(family, above, identifier)
        if item is None and deed.api.method == "PUT" and not family.creates:
            return self._shown(deed, self._state.keep(family, above, identifier, _fields(deed, arguments)))
        if item is None:
            raise Refused(404, f"there is no {family.noun} with the id {identifier[:100]!r}")
        if deed.role is Role.DELETE:
            self._state.remove(family, above, identifier)
        elif deed.role is Role.CHANGE:
            item = self._state.know(family, above, identifier, merged_fields(item, _fields(deed, arguments)))
        return self._shown(deed, item)

    def _own(self, family: Family, place: Place, identifier: str) -> str:
        """An item's id. A word such as `me` means the first item, unless an item has that id."""
        items = self._state.items(family, place) if identifier.lower() in _MINE else {}
        return identifier if identifier in items else next(iter(items), identifier)

    def _through(self, deed: Deed, place: Place) -> Place:
        """The path with words such as `me` replaced by ids. Raises Refused (404) if an item on it does not exist."""
        form = form_of(deed.template)
        last = len(form) if deed.family is None else deed.above
        for index in range(last):
            family = self._families.family(form[:index]) if deed.template[index].names else None
            if family is None:
                continue
            above, identifier = place[:index], self._own(family, place[:index], place[index])
            if family.closed and self._state.find(family, above, identifier) is None:
                raise Refused(404, f"there is no {family.noun} with the id {identifier[:100]!r}")
            place = (*above, identifier, *place[index + 1 :])
        return place

    def _list(self, deed: Deed, family: Family, place: Place, arguments: Mapping[str, JsonValue]) -> Answer:
        assert deed.spot is not None
        given = {one.wire_name: arguments[one.name] for one in deed.api.parameters if one.name in arguments}
        found = matching(list(self._state.items(family, place).values()), given)
        shown = [self._in_list(item, deed.spot, deed.api, family) for item in paged(found, given)]
        answer = example_of(deed.api.response.json_schema, deed.api.name, deed.api.definitions)
        return _answer(deed.api, put(last_page(answer, len(found), deed.spot.path), deed.spot.path, list(shown)))

    def _in_list(self, item: Item, spot: Spot, api: Api, family: Family) -> JsonValue:
        kinds = kinds_of(spot.schema, api.definitions)
        if kinds and "object" not in kinds:
            return item.get(family.key) if family.key else example_of(spot.schema, family.noun, api.definitions)
        inner = item_spot(spot.schema, api.definitions, family.noun) or spot
        way = inner.path if inner is not spot else ()
        made = example_of(spot.schema, family.noun, api.definitions)
        return put(made, way, laid_over(at(made, way), item, inner.schema, api.definitions))

    def _shown(self, deed: Deed, item: Item) -> Answer:
        api = deed.api
        made = example_of(api.response.json_schema, api.name, api.definitions)
        if deed.spot is None:
            return _answer(api, made if api.response.json_schema else item)
        path = deed.spot.path
        return _answer(api, put(made, path, laid_over(at(made, path), item, deed.spot.schema, api.definitions)))

    def _other(self, deed: Deed, place: Place, arguments: Mapping[str, JsonValue]) -> Answer:
        """Answer an operation without a family: from its schema, with the arguments in the fields that fit."""
        api, fields = deed.api, _fields(deed, arguments)
        if api.method == "DELETE":
            self._state.erase(place)
        elif api.mutating:
            self._state.write(place, fields)
        made = example_of(api.response.json_schema, api.name, api.definitions)
        named = {one.wire_name: arguments[one.name] for one in api.parameters if one.name in arguments}
        shown = {**named, **self._of_parent(deed, place, fields), **self._state.written(place)}
        spot = item_spot(api.response.json_schema, api.definitions, singular(plain(deed.template[-1].noun)))
        if spot is None:
            return _answer(api, made if api.response.json_schema else dict(shown))
        if not members(spot.schema.get("properties")):
            return _answer(api, made)
        return _answer(api, put(made, spot.path, laid_over(at(made, spot.path), shown, spot.schema, api.definitions)))

    def _of_parent(self, deed: Deed, place: Place, fields: Item) -> Item:
        """The item that an action applies to, with its changes, if the answer shows that item; otherwise empty."""
        index = next((at for at in range(len(place) - 1, -1, -1) if deed.template[at].names), None)
        family = self._families.family(form_of(deed.template)[:index]) if index is not None else None
        if index is None or family is None:
            return {}
        known = members(resolved(family.schema, family.definitions).get("properties"))
        spot = item_spot(deed.api.response.json_schema, deed.api.definitions, family.noun)
        answered = members(spot.schema.get("properties")) if spot is not None else {}
        if not known or 2 * len(known.keys() & answered.keys()) < len(known):
            return {}
        item = self._state.find(family, place[:index], place[index]) or {}
        if not deed.api.mutating:
            return item
        changed = {name: value for name, value in fields.items() if name in known}
        kept = {
            name: value for name, value in changed.items() if fits(value, kinds_of(known[name], family.definitions))
        }
        return self._state.know(family, place[:index], place[index], merged_fields(item, kept))

    def _item_at(self, path: str) -> tuple[Family, Place, str] | None:
        """Family, collection path and id of the item at a path. The path may omit the server's path."""
        *above, last = path.strip("/").split("/")
        for family in self._families:
            prefix = len(family.template) - len(above)
            ahead, template = family.template[: max(prefix, 0)], family.template[max(prefix, 0) :]
            if prefix < 0 or not above or any(part.names for part in ahead):
                continue
            read = [
                part.read(text) if part.names else {} if part.noun == unquote(text) else None
                for part, text in zip(template, above, strict=True)
            ]
            if all(values is not None for values in read):
                values = {name: value for found in read for name, value in (found or {}).items()}
                return family, _place(family.template, values), re.sub(r"\.(json|xml)$", "", unquote(last))
        return None


def merged_fields(item: Item, fields: Mapping[str, JsonValue]) -> Item:
    """The item's fields, overwritten by the given ones."""
    return {**item, **fields}


def _place(template: Template, values: Mapping[str, str]) -> Place:
    """A concrete path: nouns, and the decoded values of parameters."""
    return tuple(
        ",".join(unquote(values.get(name, "")) for name in part.names) if part.names else part.noun for part in template
    )


def _fields(deed: Deed, arguments: Mapping[str, JsonValue]) -> Item:
    """The item's fields in the arguments. An object that only wraps the item is unwrapped."""
    found: Item = {}
    for one in deed.api.parameters:
        if one.name not in arguments or one.location not in (Location.BODY, Location.QUERY):
            continue
        value = arguments[one.name]
        is_body = one.location is Location.BODY and deed.api.body is not None and deed.api.body.whole
        found |= value if is_body and isinstance(value, dict) else {one.wire_name: value}
    noun = deed.family.noun if deed.family is not None else ""
    wrappers = {noun, "data", *(str(step) for step in (deed.spot.path if deed.spot is not None else ()))}
    inner = [value for name, value in found.items() if singular(plain(name)) in wrappers or name in wrappers]
    return _as_shown(dict(inner[0]) if len(inner) == 1 and isinstance(inner[0], dict) else found, deed)


def _as_shown(found: Item, deed: Deed) -> Item:
    """The fields under the item's own names: `FriendlyName` in a request becomes `friendly_name`."""
    if deed.family is None:
        return found
    known = members(resolved(deed.family.schema, deed.family.definitions).get("properties"))
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
    text = value if isinstance(value, str) else orjson.dumps(value).decode() if value is not None else api.name
    return Answer(said.status, said.media_type if "*" not in said.media_type else "text/plain", text.encode())


def _json(
    status: int, value: JsonValue, media_type: str = "application/json", headers: Mapping[str, str] | None = None
) -> Answer:
    return Answer(status, media_type, orjson.dumps(value), dict(headers or {}))
