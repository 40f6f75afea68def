"""What a planner needs to know about an API, read once: its arguments, the fields of its answer, and their words.

Profiles depend only on the API, so one cache keeps them by its content hash for all requests (:func:`profile_of`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import JsonValue

from planner_svc.compiler.nodes import Node
from planner_svc.compiler.schemas import Schemas
from planner_svc.reading.api_cache import ApiCache
from planner_svc.reading.effects import Effect, effect_of
from planner_svc.reading.text import singular, split_name, stem, stem_set, stems, word_set
from services.contracts.api import Api, Location, Parameter
from services.contracts.base import JsonPath
from services.supply import WRAPPERS

MAX_FIELDS = 120
MAX_NESTING = 5
MAX_MEMBERS = 30
MAX_SAMPLES = 3

_FROM = word_set(
    "from origin source start starts starting first departure begin begins beginning since after earliest min minimum"
    " lowest gt gte"
)
_TO = word_set(
    "to destination target end ends ending second arrival until before latest into max maximum highest lt lte"
)
_SURELY = word_set(
    "from since after earliest min minimum lowest gt gte to until before latest into max maximum highest lt lte"
)
"""Words that tell an end of a pair also beside "start" or "end": ``start_date_to``."""
_RANGE = word_set(
    "start starts starting end ends ending first last begin begins min minimum lowest max maximum highest since until"
    " earliest latest gt gte lt lte"
)
_TEMPORAL = stem_set("date day time when start end due until since month year moment datetime timestamp")
_PAGING = word_set("page size limit offset cursor pages next_cursor page_token next_page_token per_page")
_PROBES = ("lorem", "Ipsum dolor", "word", "Some Name", "x1", "AB", "12345", "what?", "a_b", "QWERTY")
_SEARCH = word_set("query q search term keyword keywords")

Role = Literal["from", "to"]
"""The end of a pair that a value is."""


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """An argument to fill.

    ``words`` are the stems of its name, ``about`` those of its description. ``specific`` tells whether its pattern or
    format rejects ordinary words, so that a value it accepts is likely meant for it.
    """

    name: str
    parameter: Parameter
    node: Node
    kinds: frozenset[str]
    words: tuple[str, ...]
    about: frozenset[str]
    role: Role | None
    temporal: bool
    specific: bool
    patterned: bool
    paging: bool
    choices: tuple[JsonValue, ...]
    examples: tuple[str, ...]
    text: str
    children: tuple["Slot", ...] = ()
    """The members of an object, or of the objects in a list."""
    samples: tuple[str, ...] = ()
    """For text that names something: what it names, and examples of it, including the answer's own."""
    path: JsonPath = ()
    """For a value inside an object, the parameter and the path inside it. Empty for a parameter itself."""
    said: str = ""
    """The words of its name."""

    @property
    def required(self) -> bool:
        """Whether a call without it is rejected."""
        return self.parameter.needed

    @property
    def paired(self) -> frozenset[str]:
        """The words of its name without the end of a pair: those that ``from_unit`` and ``to_unit`` share."""
        words = frozenset(self.said.lower().split())
        return words - (_SURELY if words & _SURELY else _FROM | _TO)

    @property
    def in_range(self) -> bool:
        """Whether it is an end of a range, such as a first and a last page, which can be the same."""
        return self.temporal or bool(_RANGE.intersection(self.said.lower().split()))

    @property
    def as_text(self) -> bool:
        """Whether it is sent as text, outside a JSON body."""
        return self.parameter.location is not Location.BODY


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of an API's answer. ``path`` takes the first item of each list; ``listed`` counts the lists on it.

    ``holder`` is the thing that the field belongs to. ``first`` tells whether it is the first field of that thing,
    which often identifies it.
    """

    path: JsonPath
    node: Node
    kinds: frozenset[str]
    name: str
    words: tuple[str, ...]
    about: frozenset[str]
    examples: tuple[JsonValue, ...]
    listed: int
    paging: bool
    holder: str
    first: bool
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """An API with its slots and fields. ``noun`` is the thing that its path is about, ``vocabulary`` all its words.

    ``constant_slots`` are arguments with a constant: only a request that names one gives it another value.
    """

    api: Api
    slots: tuple[Slot, ...]
    fields: tuple[Field, ...]
    noun: str
    title: frozenset[str]
    vocabulary: frozenset[str]
    effect: Effect
    schemas: Schemas
    response: Node
    constant_slots: tuple[Slot, ...] = ()


def read_profile(api: Api) -> Profile:
    """Read an API. It ends for any document: walks are bounded and schemas have budgets."""
    schemas = Schemas()
    noun = _noun(api.path)
    asked = [p for p in api.parameters if p.constant is None and not _is_protocol(p)]
    constant = [p for p in api.parameters if p.constant is not None]
    slots, constant_slots = (
        tuple(slot_of(schemas, p, Node(p.json_schema, api.definitions), noun) for p in some)
        for some in (asked, constant)
    )
    response = Node(api.response.json_schema, api.definitions)
    fields = tuple(_fields(schemas, response, noun))
    slots = tuple(replace(slot, samples=_samples(slot, fields)) for slot in _stays(slots))
    title = frozenset(stems(f"{' '.join(split_name(api.name))} {api.summary} {' '.join(api.tags)} {noun}"))
    own = [*stems(api.description), *(w for f in fields for w in (*f.words, *f.about))]
    own += [word for slot in (*slots, *constant_slots) for word in (*slot.words, *slot.about)]
    return Profile(
        api=api,
        slots=slots,
        fields=fields,
        noun=noun,
        title=title,
        vocabulary=title | frozenset(own),
        effect=effect_of(api),
        schemas=schemas,
        response=response,
        constant_slots=constant_slots,
    )


def words_of_api(profile: Profile) -> frozenset[str]:
    """Stems of all words in an API's document: names, path, descriptions, arguments, fields of its answer."""
    api = profile.api
    names = " ".join([api.provider, *split_name(api.provider), *split_name(api.path)])
    return profile.vocabulary.union(stems(names))


def _is_protocol(parameter: Parameter) -> bool:
    """Whether it is an optional header or cookie. These control the exchange; requests do not say their values."""
    return parameter.location in (Location.HEADER, Location.COOKIE) and not parameter.required


def _noun(path: str) -> str:
    static = [part for part in path.split("/") if part and "{" not in part]
    words = split_name(static[0]) if static else []
    return " ".join([*words[:-1], singular(words[-1])]) if words else ""


def slot_of(schemas: Schemas, parameter: Parameter, node: Node, noun: str, depth: int = 0) -> Slot:
    """The slot of a parameter with schema ``node``; its members are read at depth 0 only."""
    parts = split_name(parameter.name)
    words = tuple(stem(part) for part in parts)
    described = parameter.description or _text(parameter.json_schema.get("description"))
    about = frozenset(stems(described))
    kinds = schemas.kinds(node) - {"null"}
    item = _item(schemas, node, kinds)
    choices = _choices(schemas, item)
    examples = _examples(schemas, node)
    specific = not choices and "string" in schemas.kinds(item) and _is_specific(schemas, item)
    role = _role(parts, described)
    temporal = _is_temporal(schemas, node, words, examples)
    name = " ".join(part for part in parts if part not in _FROM | _TO) or " ".join(parts)
    text = _entity(noun, name.split())
    return Slot(
        name=parameter.name,
        parameter=parameter,
        node=node,
        kinds=kinds,
        words=words,
        about=about,
        role=role,
        temporal=temporal,
        specific=specific,
        patterned=any("pattern" in s or "format" in s for branch in schemas.branches(node) for s in branch),
        paging=parameter.name.lower() in _PAGING,
        choices=choices,
        examples=tuple(e[:100] for e in examples if isinstance(e, str)),
        text=text,
        children=_children(schemas, item, noun) if not depth else (),
        said=" ".join(parts),
    )


def _stays(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    """The slots; who arrives before they depart stays there, and does not travel."""
    ends = [
        slot
        for slot in slots
        if slot.temporal and slot.role and {"arrival", "departure"} & {*slot.said.lower().split()}
    ]
    if [slot.role for slot in ends] != ["to", "from"]:
        return slots
    turned: dict[str, Role] = {ends[0].name: "from", ends[1].name: "to"}
    return tuple(replace(slot, role=turned.get(slot.name, slot.role)) for slot in slots)


def _samples(slot: Slot, fields: Sequence[Field]) -> tuple[str, ...]:
    names = set(slot.words) & {"name", *_SEARCH}
    if slot.specific or slot.choices or slot.temporal or "string" not in slot.kinds or not names:
        return ()
    shown = [str(e) for f in fields if f.words in (slot.words, ("name",)) for e in f.examples[:1]]
    return tuple(dict.fromkeys([slot.text, *slot.examples[:MAX_SAMPLES], *shown[:MAX_SAMPLES]]))


def _is_specific(schemas: Schemas, node: Node) -> bool:
    return len(_PROBES) - schemas.refused(node, _PROBES) <= 2


def _children(schemas: Schemas, node: Node, noun: str) -> tuple[Slot, ...]:
    """The members of an object, each as a slot; objects inside them are not split."""
    if schemas.kinds(node) - {"null"} != {"object"}:
        return ()
    needed = schemas.required(node)
    return tuple(
        slot_of(schemas, member_of(name, child, required=name in needed), child, noun, depth=1)
        for name, child in list(schemas.properties(node).items())[:MAX_MEMBERS]
        if name and isinstance(child.schema, dict)
    )


def member_of(name: str, node: Node, *, required: bool) -> Parameter:
    """A member of an object as if it were a parameter in the body."""
    schema = node.schema if isinstance(node.schema, dict) else {}
    name = name[:200]
    described = _text(schema.get("description"))
    where = Location.BODY
    return Parameter(
        name=name, wire_name=name, location=where, required=required, description=described, json_schema=schema
    )


def _choices(schemas: Schemas, node: Node) -> tuple[JsonValue, ...]:
    """The listed values, without null."""
    found: list[JsonValue] = []
    for branch in schemas.branches(node):
        for schema in branch:
            listed = [schema["const"]] if "const" in schema else schema.get("enum")
            found += listed if isinstance(listed, list) else []
    return tuple(value for value in found if value is not None)


def _entity(noun: str, name: list[str]) -> str:
    """What a value of the argument is: for `/countries`, a `name` is a country name, and a `query` a country."""
    if set(name) <= _SEARCH:
        return noun or "text"
    return f"{noun} {' '.join(name)}" if len(name) == 1 and name[0] != noun else " ".join(name)


def _item(schemas: Schemas, node: Node, kinds: frozenset[str]) -> Node:
    if "array" in kinds and kinds <= {"array", "string"}:
        item = schemas.child(node, 0, strict=False)
        return item if isinstance(item, Node) else node
    return node


def _role(parts: Sequence[str], described: str) -> Role | None:
    names = set([part for part in parts if part in _SURELY][-1:] or parts)
    if names & (_FROM | _TO):
        return "from" if bool(names & _FROM) != ("not" in parts) else "to"  # not_before is the first
    tail = described.lower().rstrip(".").split()[-3:]
    return "from" if "from" in tail else "to" if "to" in tail[-1:] else None


def _is_temporal(schemas: Schemas, node: Node, words: tuple[str, ...], examples: Sequence[JsonValue]) -> bool:
    formats = schemas.formats(node) or frozenset(
        str(schema["format"]) for branch in schemas.branches(node) for schema in branch if "format" in schema
    )
    if any("date" in name or "time" in name for name in formats):
        return True
    if any(isinstance(e, str) and re.match(r"\d{4}-\d\d-\d\d|\d\d:\d\d", e) for e in examples):
        return True
    return bool(words) and words[-1] in _TEMPORAL and "zone" not in words


def _examples(schemas: Schemas, node: Node) -> tuple[JsonValue, ...]:
    found: list[JsonValue] = []
    for branch in schemas.branches(node):
        for schema in branch:
            listed = schema.get("examples")
            found += listed if isinstance(listed, list) else []
            found += [schema["example"]] if "example" in schema else []
    return tuple(found[:8])


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema inside an answer that may become a field."""

    path: JsonPath
    node: Node
    listed: int
    holder: str
    first: bool = False

    @property
    def name(self) -> str:
        return str(next((part for part in reversed(self.path) if isinstance(part, str)), ""))

    @property
    def thing(self) -> str:
        """What its members belong to: a language for "languages", the holder itself for wrappers such as "items"."""
        return self.holder if self.name.lower() in WRAPPERS else singular(" ".join(split_name(self.name)))


def _fields(schemas: Schemas, root: Node, noun: str) -> Iterator[Field]:
    """The members of an answer, breadth first, lists by their first item; the answer itself if it is no object."""
    waiting = [_Place((), root, 0, noun)]
    for _ in range(MAX_FIELDS):
        if not waiting:
            return
        place = waiting.pop(0)
        path, node = place.path, place.node
        kinds = schemas.kinds(node) - {"null"}
        if not (path and path[-1] == 0) and (path or kinds != {"object"}):
            yield _field(schemas, place, kinds)
        if len(path) >= MAX_NESTING or schemas.is_anything(node):
            continue
        if kinds == {"object"}:
            members = schemas.properties(node).items()
            waiting += [
                _Place((*path, key), child, place.listed, place.thing, first=index == 0)
                for index, (key, child) in enumerate(members)
            ]
        elif kinds == {"array"}:
            item = schemas.child(node, 0, strict=False)
            if isinstance(item, Node):
                waiting.append(_Place((*path, 0), item, place.listed + 1, place.holder))


def first_item(schemas: Schemas, field: Field) -> Field:
    """The first item of a list as a separate field; the list itself if its items are unknown."""
    item = schemas.child(field.node, 0, strict=False)
    if not isinstance(item, Node):
        return field
    kinds = schemas.kinds(item) - {"null"}
    return replace(field, path=(*field.path, 0), node=item, kinds=kinds, listed=field.listed + 1)


def _field(schemas: Schemas, place: _Place, kinds: frozenset[str]) -> Field:
    branches = [schema for branch in schemas.branches(place.node) for schema in branch]
    described = next((_text(schema["description"]) for schema in branches if "description" in schema), "")
    parts = split_name(place.name)
    counted = place.name.lower() == "total" and "integer" in kinds and len(place.path) == 1
    return Field(
        path=place.path,
        node=place.node,
        kinds=kinds,
        name=place.name,
        words=tuple(stem(part) for part in parts),
        about=frozenset(stems(described)),
        examples=_examples(schemas, place.node),
        listed=place.listed,
        paging=place.name.lower() in _PAGING or counted,
        holder=place.holder,
        first=place.first,
        text=f"{place.holder} {' '.join(parts)}: {described}".strip(),
    )


def _text(value: JsonValue) -> str:
    return value[:500] if isinstance(value, str) else ""


class ProfileCache:
    """An LRU cache of profiles by content hash, limited in number and in size.

    It is safe to use from several threads; at worst two of them compute the same entry.
    """

    def __init__(self, max_profiles: int = 2_000) -> None:
        self._cache: ApiCache[Profile] = ApiCache(max_profiles)

    def profile(self, api: Api) -> Profile:
        """The API's profile, read on a cache miss. It is shared: ask its schemas only about the API's own nodes."""
        key = f"{api.id}\n{api.content_hash}"
        found = self._cache.get(key)
        if found is None or (not api.content_hash and found.api != api):
            found = read_profile(api)
            self._cache.put(key, found, api)
        return found


_SHARED: Final = ProfileCache()


def profile_of(api: Api) -> Profile:
    """The API's profile from the cache of this process, which all backends and checks share."""
    return _SHARED.profile(api)
