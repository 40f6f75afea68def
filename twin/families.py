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
from twin.shapes import Spot, item_spot, key_of, list_spot

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
class Family:
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
class Deed:
    """What an operation does, and to which family.

    Attributes:
        api: the operation.
        template: its path, split into segments.
        role: what it does.
        family: the family of its items; None if there is none.
        above: how many segments of the path are the collection's; the next one, if any, is the item's id.
        spot: where the item or the list is in its answer; None if it is not there.
        id_name: the argument with the item's id, if it is not in the path.
    """

    api: Api
    template: Template
    role: Role
    family: Family | None = None
    above: int = 0
    spot: Spot | None = None
    id_name: str | None = None


def form_of(template: Template) -> tuple[str, ...]:
    """A path without the names of its parameters. All templates of a collection have the same form."""
    return tuple("{}" if one.names else one.noun for one in template)


class Families:
    """The families of a service.

    Args:
        apis: its operations.
    """

    def __init__(self, apis: Iterable[Api]) -> None:
        self._families: dict[tuple[str, ...], Family] = {}
        listed = [(api, _split_verb(api)) for api in apis]
        items = {form_of(template) for _, (template, _) in listed if template[-1].names}
        self._collections = {form[:-1] for form in items}
        listed.sort(key=lambda one: one[1][1] in _BY_ID)  # these come last: they need collections found before
        self.deeds = {api.id: self._deed(api, template, verb) for api, (template, verb) in listed}
        for family in self._families.values():
            if family.key is None:
                family.key = key_of(family.schema, family.noun, "", family.definitions)

    def __iter__(self) -> Iterator[Family]:
        """Iterate over all families."""
        return iter(self._families.values())

    def family(self, form: tuple[str, ...]) -> Family | None:
        """The collection of this path."""
        return self._families.get(form)

    def called(self, noun: str) -> Family | None:
        """The top-level collection with this noun."""
        found = (one for one in self._families.values() if one.noun == noun)
        return next((one for one in found if not any(part.names for part in one.template)), None)

    def _deed(self, api: Api, template: Template, verb: Role | None) -> Deed:
        if template[-1].names:
            if verb in (Role.LIST, Role.CREATE):
                return Deed(api, segments_of(api), Role.OTHER)
            return self._item_deed(api, template, verb or _METHODS.get(api.method, Role.CHANGE))
        form, answered = form_of(template), api.response.json_schema
        spot = list_spot(answered, api.definitions, singular(plain(template[-1].noun)))
        is_known = form in self._collections or self._is_listed(form)
        if spot is not None and (verb is Role.LIST or (verb is None and api.method in ("GET", "HEAD"))):
            family = self._kept(template)
            self._described(family, spot.schema, api, rank=2)
            family.closed = True
            return Deed(api, template, Role.LIST, family, len(template), spot)
        id_name = _id_argument(api, singular(plain(template[-1].noun)))
        if (verb is Role.CREATE and id_name is None) or (verb is None and api.method == "POST" and is_known):
            family = self._kept(template)
            family.closed = family.creates = True
            return self._one(api, template, Role.CREATE, family, len(template), rank=3)
        if verb in _BY_ID and id_name is not None and self._is_listed(form):
            found = self._one(api, template, verb, self._kept(template), len(template), rank=1)
            return replace(found, id_name=id_name)
        return Deed(api, segments_of(api), Role.OTHER)

    def _item_deed(self, api: Api, template: Template, role: Role) -> Deed:
        family = self._kept(template[:-1])
        name = template[-1].names[-1]
        parameter = next((one for one in api.parameters if one.wire_name == name), None)
        rank = {Role.READ: 0, Role.CHANGE: 1}.get(role, 4)
        deed = self._one(api, template, role, family, len(template) - 1, rank=rank)
        self._identified(family, parameter, name, api)
        return deed

    def _one(self, api: Api, template: Template, role: Role, family: Family, above: int, *, rank: int) -> Deed:
        """A deed whose answer, if any, holds one item."""
        spot = item_spot(api.response.json_schema, api.definitions, family.noun)
        if spot is not None and role is not Role.DELETE:
            self._described(family, spot.schema, api, rank)
        return Deed(api, template, role, family, above, spot)

    def _kept(self, template: Template) -> Family:
        form = form_of(template)
        if form not in self._families:
            nouns = [one.noun for one in template if one.noun]
            self._families[form] = Family(template, singular(plain(nouns[-1])) if nouns else "item")
        return self._families[form]

    def _described(self, family: Family, schema: JsonSchema, api: Api, rank: int) -> None:
        """Use this schema for the family's items if it ranks better than the current one."""
        if rank < family.rank and schema:
            family.schema, family.definitions, family.rank = schema, dict(api.definitions), rank

    def _identified(self, family: Family, parameter: Parameter | None, name: str, api: Api) -> None:
        if parameter is not None and not family.id_schema:
            family.id_schema = dict(parameter.json_schema)
        if family.key is None:
            family.key = key_of(family.schema, family.noun, name, family.definitions)

    def _is_listed(self, form: tuple[str, ...]) -> bool:
        return form in self._families and self._families[form].closed


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
