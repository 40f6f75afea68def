"""Groups operations by the collection that they work on, and finds what each one does.

The paths decide. A path that ends in a parameter is an item of the path before it. A path with such items, or with a
list as its answer, is a collection. For services with verbs in their paths (``/contacts/create``, ``contacts.list``)
the verb decides. All other operations are answered from their schemas alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from services.contracts.api import Api, Parameter
from services.contracts.base import JsonSchema
from twin.routes import Segment, segments_of
from twin.schemas import kinds_of, plain, singular
from twin.shapes import ItemLocation, key_of, locate_item, locate_list

Template = tuple[Segment, ...]


class Role(StrEnum):
    """What an operation does."""

    LIST = "list"
    CREATE = "create"
    READ = "read"
    CHANGE = "change"
    DELETE = "delete"
    OTHER = "other"


_VERBS = {
    Role.LIST: frozenset({"list", "search", "all", "find", "query", "findall", "getall", "listall"}),
    Role.CREATE: frozenset({"create", "add", "new", "insert"}),
    Role.READ: frozenset({"get", "info", "details", "read", "show", "retrieve", "view"}),
    Role.CHANGE: frozenset({"update", "edit", "modify", "patch"}),
    Role.DELETE: frozenset({"delete", "remove", "destroy"}),
}
_BY_ID = frozenset({Role.READ, Role.CHANGE, Role.DELETE})
_METHODS = {"GET": Role.READ, "HEAD": Role.READ, "PUT": Role.CHANGE, "PATCH": Role.CHANGE, "DELETE": Role.DELETE}


@dataclass(slots=True)
class Collection:
    """A collection.

    Attributes:
        template: its path.
        noun: the name of one of its items, plain and in the singular.
        schema: the schema of an item. ``definitions`` are its references' targets.
        key: the field that holds an item's id; None if there is none.
        id_schema: the schema of an id.
        closed: whether callers can learn its ids, because items can be listed or created. Otherwise every id exists.
        creates: whether an operation creates items.
        rank: the quality of the operation that ``schema`` is taken from; lower is better.
    """

    template: Template
    noun: str
    schema: JsonSchema = field(default_factory=dict)
    definitions: dict[str, JsonSchema] = field(default_factory=dict)
    key: str | None = None
    id_schema: JsonSchema = field(default_factory=dict)
    closed: bool = False
    creates: bool = False
    rank: int = 99


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What an operation does, and to which collection.

    Attributes:
        api: the operation.
        template: its path, split into segments.
        role: what it does.
        collection: the collection of its items; None if there is none.
        above: how many segments of the path are the collection's; the next one, if any, is the item's id.
        location: where the item or the list is in its answer; None if it is not there.
        id_name: the argument with the item's id, if it is not in the path.
    """

    api: Api
    template: Template
    role: Role
    collection: Collection | None = None
    above: int = 0
    location: ItemLocation | None = None
    id_name: str | None = None


def form_of(template: Template) -> tuple[str, ...]:
    """A path without the names of its parameters. All templates of a collection have the same form."""
    return tuple("{}" if one.names else one.noun for one in template)


class Collections:
    """The collections of a service.

    Args:
        apis: its operations.
    """

    def __init__(self, apis: Iterable[Api]) -> None:
        self._by_form: dict[tuple[str, ...], Collection] = {}
        listed = [(api, _split_verb(api)) for api in apis]
        items = {form_of(template) for _, (template, _) in listed if template[-1].names}
        self._item_parents = {form[:-1] for form in items}
        listed.sort(key=lambda one: one[1][1] in _BY_ID)  # these come last: they need collections found before
        self.endpoints = {api.id: self._endpoint(api, template, verb) for api, (template, verb) in listed}
        for collection in self._by_form.values():
            if collection.key is None:
                collection.key = key_of(collection.schema, collection.noun, "", collection.definitions)

    def __iter__(self) -> Iterator[Collection]:
        """Iterate over all collections."""
        return iter(self._by_form.values())

    def find(self, form: tuple[str, ...]) -> Collection | None:
        """The collection of this path."""
        return self._by_form.get(form)

    def with_noun(self, noun: str) -> Collection | None:
        """The top-level collection with this noun."""
        found = (one for one in self._by_form.values() if one.noun == noun)
        return next((one for one in found if not any(part.names for part in one.template)), None)

    def _endpoint(self, api: Api, template: Template, verb: Role | None) -> Endpoint:
        if template[-1].names:
            if verb in (Role.LIST, Role.CREATE):
                return Endpoint(api, segments_of(api), Role.OTHER)
            return self._item_endpoint(api, template, verb or _METHODS.get(api.method, Role.CHANGE))
        form, answered = form_of(template), api.response.json_schema
        location = locate_list(answered, api.definitions, singular(plain(template[-1].noun)))
        is_known = form in self._item_parents or self._is_listed(form)
        if location is not None and (verb is Role.LIST or (verb is None and api.method in ("GET", "HEAD"))):
            collection = self._collection_at(template)
            self._use_schema(collection, location.schema, api, rank=2)
            collection.closed = True
            return Endpoint(api, template, Role.LIST, collection, len(template), location)
        id_name = _id_argument(api, singular(plain(template[-1].noun)))
        if (verb is Role.CREATE and id_name is None) or (verb is None and api.method == "POST" and is_known):
            collection = self._collection_at(template)
            collection.closed = collection.creates = True
            return self._with_item(api, template, Role.CREATE, collection, len(template), rank=3)
        if verb in _BY_ID and id_name is not None and self._is_listed(form):
            found = self._with_item(api, template, verb, self._collection_at(template), len(template), rank=1)
            return replace(found, id_name=id_name)
        return Endpoint(api, segments_of(api), Role.OTHER)

    def _item_endpoint(self, api: Api, template: Template, role: Role) -> Endpoint:
        collection = self._collection_at(template[:-1])
        name = template[-1].names[-1]
        parameter = next((one for one in api.parameters if one.wire_name == name), None)
        rank = {Role.READ: 0, Role.CHANGE: 1}.get(role, 4)
        endpoint = self._with_item(api, template, role, collection, len(template) - 1, rank=rank)
        self._set_key(collection, parameter, name, api)
        return endpoint

    def _with_item(
        self, api: Api, template: Template, role: Role, collection: Collection, above: int, *, rank: int
    ) -> Endpoint:
        """An endpoint whose answer, if any, holds one item."""
        location = locate_item(api.response.json_schema, api.definitions, collection.noun)
        if location is not None and role is not Role.DELETE:
            self._use_schema(collection, location.schema, api, rank)
        return Endpoint(api, template, role, collection, above, location)

    def _collection_at(self, template: Template) -> Collection:
        form = form_of(template)
        if form not in self._by_form:
            nouns = [one.noun for one in template if one.noun]
            self._by_form[form] = Collection(template, singular(plain(nouns[-1])) if nouns else "item")
        return self._by_form[form]

    def _use_schema(self, collection: Collection, schema: JsonSchema, api: Api, rank: int) -> None:
        """Use this schema for the collection's items if it ranks better than the current one."""
        if rank < collection.rank and schema:
            collection.schema, collection.definitions, collection.rank = schema, dict(api.definitions), rank

    def _set_key(self, collection: Collection, parameter: Parameter | None, name: str, api: Api) -> None:
        if parameter is not None and not collection.id_schema:
            collection.id_schema = dict(parameter.json_schema)
        if collection.key is None:
            collection.key = key_of(collection.schema, collection.noun, name, collection.definitions)

    def _is_listed(self, form: tuple[str, ...]) -> bool:
        return form in self._by_form and self._by_form[form].closed


def _split_verb(api: Api) -> tuple[Template, Role | None]:
    """The path without a verb at its end, and what the verb means."""
    template = segments_of(api)
    last = template[-1].noun
    head, dot, tail = last.rpartition(".")
    word = plain(tail if dot else last)
    role = next((role for role, words in _VERBS.items() if word in words), None)
    if role is None or (api.method == "GET" and role in (Role.CREATE, Role.CHANGE, Role.DELETE)):
        return template, None
    if dot and head:
        return (*template[:-1], Segment((head,), ())), role
    return (template[:-1], role) if len(template) > 1 else (template, None)


def _id_argument(api: Api, noun: str) -> str | None:
    """The argument that holds the id of the operation's item."""
    wanted = (f"{noun}id", "id", noun, f"{noun}uuid", "uuid", f"{noun}key", f"{noun}name")
    plainly = [one for one in api.parameters if not kinds_of(one.json_schema, api.definitions) & {"object", "array"}]
    names = {plain(one.wire_name): one.name for one in plainly}
    return next((names[name] for name in wanted if name in names), None)
