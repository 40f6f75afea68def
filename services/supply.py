"""How likely a field of one operation's answer is the value of another operation's parameter.

``/customers/{customerId}/orders`` needs a customer: ``GET /customers`` lists them, and ``GET /orders`` may return the
id of one. Small trees weigh what the names, paths and descriptions of both tell; ``nestor train supply`` fits them to
recorded plans. Types are left to the caller, since not every one of them has the schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import as_file, files
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final

import numpy as np

from services.contracts.api import Api, Parameter
from services.trees import Floats, Trees, TreesError, read_arrays
from services.words import stem, words

Roots = tuple[str, ...]
"""Words without endings."""

SIGNS: Final = (
    "in_path", "required", "identifying", "bare", "length",
    "same_provider", "shared_path", "lists_it", "reads_one", "about_it", "named_so", "finds_anything", "of_one",
    "depth", "looks_up", "needs_it", "needs", "reads", "described",
    "known", "field_identifying", "field_bare", "namesake", "of_parameter", "of_field", "same_thing", "same_end",
    "of_subject", "field_described",
)  # fmt: skip
"""What the trees weigh: of the parameter, of the two operations, of the field."""
WRAPPERS: Final = frozenset({
    "", "data", "entries", "hits", "items", "list", "objects", "records", "response", "result", "results", "rows",
    "values",
})  # fmt: skip
"""Names of members that only hold other things, and name nothing themselves."""
_MAX_SUBJECTS: Final = 3
_MAX_FIELDS: Final = 6
"""Most fields of an answer that are weighed for a parameter."""
_MAX_PATH: Final = 1_000
_MAX_SEGMENTS: Final = 24
"""A limit on the work, since every parameter is compared with every segment. Longer paths tell no more."""
_MAX_TEXT: Final = 200
_MAX_REQUIRED: Final = 24
"""Most required parameters of an operation that are read."""
_VARIABLE = re.compile(r"\{|^:")
_ENDING = re.compile(r"\.(?:json|xml)$")


_ID: Final = frozenset({"ids", "uid", "uuid", "guid", "pk", "fk", "idfk", "idpk", "sid", "gid", "identifier"})


def roots(text: str) -> Roots:
    """The words, stemmed twice ("buildings", "building"), and without the final "e" that "batches" is stemmed to.

    The many names of an id are one. Of a long text, the first 200 characters are read.
    """
    return _roots(text[:_MAX_TEXT])


@lru_cache(maxsize=50_000)
def _roots(text: str) -> Roots:
    found = (root.rstrip("e") if len(root) > 3 else root for root in map(stem, words(text)))
    return tuple("id" if root in _ID else root for root in found)


_IDS: Final = frozenset(roots("id key code number no num slug ref name username login email handle"))
_SEARCH: Final = frozenset(roots("search lookup find list query filter index all get"))
_BY: Final = _SEARCH | frozenset(roots("id name names email username slug external"))
"""Words of a segment that says by what things are looked up, such as ``email`` in ``/customers/email/{email}``."""


@dataclass(frozen=True)
class Operation:
    """What an operation's names tell of what it takes and what it answers with.

    Attributes:
        provider: whose it is.
        name: its name.
        path: of its URL.
        reads: whether a call changes nothing.
        required: names of the parameters that it requires.
        outputs: full names (:func:`full_name`) of its answer's fields.
    """

    provider: str
    name: str
    path: str
    reads: bool = True
    required: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @classmethod
    def of(cls, api: Api, outputs: Iterable[str] = ()) -> Operation:
        """What an API is, with the full names of its answer's fields."""
        required = tuple(islice((one.name for one in api.parameters if one.needed), _MAX_REQUIRED))
        return cls(api.provider, api.name, api.path, not api.mutating, required, tuple(dict.fromkeys(outputs)))

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The path's segments without query and ending; those that are no variables in lower case."""
        parts = self.path[:_MAX_PATH].partition("?")[0].strip("/").split("/")[:_MAX_SEGMENTS]
        bare = [_ENDING.sub("", part) for part in parts if part]
        return tuple(part if _VARIABLE.search(part) else part.lower() for part in bare)

    @cached_property
    def _ending(self) -> tuple[tuple[str, ...], bool]:
        return _collection(self.segments)

    @property
    def collection(self) -> str:
        """The path of the collection that its path ends in; empty if that has no name."""
        return _written(self._ending[0])

    @property
    def of_one(self) -> bool:
        """Whether it is about a single item of the collection."""
        return self._ending[1]

    @cached_property
    def subject(self) -> tuple[str, ...]:
        """What its path is about: the nouns of the last segment that has any, as :func:`heads` gives them."""
        return _subject(self._ending[0])

    @cached_property
    def nouns(self) -> tuple[str, ...]:
        """What its path and its name are about."""
        return tuple(dict.fromkeys([*self.subject, *_nouns(self.name)[-1:]]))

    @cached_property
    def looks_up(self) -> bool:
        """Whether its name says that it lists or finds things."""
        return not _SEARCH.isdisjoint(roots(self.name))

    @property
    def finds_anything(self) -> bool:
        """Whether it is a general search, such as ``/search``."""
        return bool(self.segments) and not self._ending[0]

    @cached_property
    def needs(self) -> frozenset[str]:
        """The things that identify what it requires."""
        return frozenset(Input.of(self, name).thing for name in self.required)

    @cached_property
    def fields(self) -> tuple[Roots, ...]:
        """The words of its answer's fields."""
        return tuple(map(roots, self.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A parameter, by what its name, its place and its description tell.

    Attributes:
        operation: whose it is.
        words: of its name.
        nouns: the words without those for an id at the end; none if its name only says that it is an id.
        subject: the things that it may identify.
        collection: path of the collection that it identifies an item of; empty: it does not tell.
        in_path: whether it is a part of the path.
        required: whether a call must have it.
        about: words of its description.
    """

    operation: Operation
    words: Roots
    nouns: Roots
    subject: tuple[str, ...]
    collection: str
    in_path: bool
    required: bool
    about: frozenset[str]

    @classmethod
    def of(cls, operation: Operation, name: str, description: str = "", *, required: bool = True) -> Input:
        """The parameter of that name."""
        own, segments = roots(name), operation.segments
        nouns = without_ids(own)
        place = next((n for n, part in enumerate(segments) if _VARIABLE.search(part) and roots(part) == own), None)
        parts: tuple[str, ...] = () if place is None else _collection(segments[:place])[0]
        subject, collection = heads(nouns), _written(parts)
        if collection:
            subject += heads(_nouns(parts[-1]))
        elif place is None and not nouns:
            subject = list(_subject(segments))
        subjects = tuple(dict.fromkeys(subject))[:_MAX_SUBJECTS]
        about = frozenset(roots(description)) if description else frozenset()
        return cls(operation, own, nouns, subjects, collection, place is not None, required, about)

    @classmethod
    def of_parameter(cls, operation: Operation, parameter: Parameter) -> Input:
        """An API's parameter."""
        return cls.of(operation, parameter.name, parameter.description, required=parameter.needed)

    @property
    def identifying(self) -> bool:
        """Whether it is a part of the path, or named like an id."""
        return self.in_path or len(self.nouns) < len(self.words)

    @property
    def thing(self) -> str:
        """What it identifies, or its name."""
        return next(iter(self.subject), " ".join(self.words))


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """The trees over the signs."""

    trees: Trees

    @classmethod
    def load(cls, path: Path) -> Scorer:
        """Read the trees.

        Raises:
            TreesError: the file holds no trees, or trees over other signs.
        """
        arrays = read_arrays(path)
        signs = arrays.get("signs")
        if signs is None or tuple(signs.tolist()) != SIGNS:
            raise TreesError("it weighs other signs than this version")
        return cls(Trees.of(arrays, len(SIGNS)))

    def save(self, path: Path) -> None:
        """Write the trees to a file."""
        arrays: dict[str, Any] = {"signs": np.array(SIGNS)} | self.trees.arrays()
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def scores(self, rows: Sequence[Sequence[float]] | Floats) -> Floats:
        """(n,) how likely each field feeds each parameter, from rows of :func:`signs`."""
        return self.trees.probabilities(np.asarray(rows, np.float32).reshape(-1, len(SIGNS)))


@cache
def shipped() -> Scorer:
    """The scorer that ships with Nestor.

    Raises:
        TreesError: it cannot be used.
    """
    with as_file(files("services") / "supply.npz") as path:
        return Scorer.load(path)


def signs(parameter: Input, source: Operation, field: Roots | None) -> tuple[float, ...]:
    """What is known of an operation's field as the source of another's parameter; None: of an answer without fields."""
    own = field if field is not None else ()
    return (*_of_pair(parameter, source), *_of_field(parameter, source, own))


def likely_signs(parameter: Input, source: Operation) -> Iterator[tuple[float, ...]]:
    """The signs of the source's fields that share a word with the parameter, or of its answer as a whole.

    There are none if it would be circular (:func:`is_circular`).
    """
    if is_circular(parameter, source):
        return
    of_pair = _of_pair(parameter, source)
    said = {*parameter.words, *(word for one in parameter.subject for word in one.split())}
    near = [field for field in source.fields if not said.isdisjoint(field) or not without_ids(field)]
    for field in near[:_MAX_FIELDS] or [()]:
        yield (*of_pair, *_of_field(parameter, source, field))


def is_circular(parameter: Input, source: Operation) -> bool:
    """Whether the source needs the value itself, and not to read the one thing that it identifies."""
    reads_it = source.of_one and source.collection == parameter.collection != ""
    return parameter.thing in source.needs and not reads_it


def _of_pair(parameter: Input, source: Operation) -> tuple[float, ...]:
    operation, about = parameter.operation, set(parameter.subject)
    same = bool(parameter.collection) and source.collection == parameter.collection
    return (
        parameter.in_path,
        parameter.required,
        parameter.identifying,
        not parameter.nouns,
        len(parameter.words),
        source.provider == operation.provider,
        shared_path(operation.segments, source.segments),
        same and not source.of_one,
        same and source.of_one,
        not about.isdisjoint(source.subject),
        not about.isdisjoint(source.nouns),
        source.finds_anything,
        source.of_one,
        len(source.segments),
        source.looks_up,
        parameter.thing in source.needs,
        len(source.needs - operation.needs),
        source.reads,
        not parameter.about.isdisjoint(source.nouns),
    )


def _of_field(parameter: Input, source: Operation, field: Roots) -> tuple[float, ...]:
    nouns = without_ids(field)
    bare = bool(field) and not nouns
    return (
        bool(field),
        len(nouns) < len(field),
        bare,
        field == parameter.words,
        shared_words(parameter.words, field),
        shared_words(field, parameter.words),
        bool(nouns) and not set(parameter.subject).isdisjoint(heads(nouns)),
        bool(field) and field[-1:] == parameter.words[-1:],
        bare and not set(parameter.subject).isdisjoint(source.nouns),
        shared_words(field, parameter.about),
    )


def shared_words(one: Sequence[str], other: Iterable[str]) -> float:
    """The share of the words of one that are also of the other."""
    about = frozenset(one)
    return len(about.intersection(other)) / max(len(about), 1)


def shared_path(one: Sequence[str], other: Sequence[str]) -> float:
    """The share of the shorter path that both begin with.

    An id of one item mostly comes from the list of items: ``/assets`` and ``/assets/{id}/history``.
    """
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return same / max(min(len(one), len(other)), 1)


def full_name(names: Sequence[str]) -> str:
    """The name of an answer's field; if it only says that it is an id, after the name of what holds it.

    Args:
        names: of the members on the way to the field, outermost first.
    """
    *holders, name = names
    holder = next((one for one in reversed(holders) if one.lower() not in WRAPPERS), "")
    return name if without_ids(roots(name)) else f"{holder} {name}".strip()


def without_ids(words: Roots) -> Roots:
    """The words without those for an id at the end: ``customer`` for ``customer id``, nothing for ``id``."""
    end = len(words)
    while end and words[end - 1] in _IDS:
        end -= 1
    return words[:end]


def heads(nouns: Sequence[str]) -> list[str]:
    """All nouns as one text, and the last one alone."""
    return list(dict.fromkeys([" ".join(nouns), nouns[-1]])) if nouns else []


def is_search(path_segment: str, of: frozenset[str] = _SEARCH) -> bool:
    """Whether a segment of a path only says that things are looked up."""
    found = () if _VARIABLE.search(path_segment) else roots(path_segment)
    return bool(found) and of.issuperset(found)


def _collection(segments: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The path of the collection that a path ends in, its variables as ``{}``, and whether it ends in a single item.

    ``/users/search`` and ``/users/search/{text}`` have the same collection as ``/users``.
    """
    rest = list(segments)
    of_one = bool(rest) and bool(_VARIABLE.search(rest[-1]))
    if of_one:
        rest.pop()
        of_one = not (rest and is_search(rest[-1], _BY))
    while rest and is_search(rest[-1], _BY):
        rest.pop()
    return tuple("{}" if _VARIABLE.search(part) else part for part in rest), of_one


def _written(collection: Sequence[str]) -> str:
    """The collection's path; empty if it has no name."""
    return "/".join(collection) if collection and collection[-1] != "{}" else ""


def _subject(segments: Sequence[str]) -> tuple[str, ...]:
    named = [nouns for part in segments if not _VARIABLE.search(part) and (nouns := _nouns(part))]
    return tuple(heads(named[-1])) if named else ()


def _nouns(text: str) -> list[str]:
    return [root for root in roots(text) if root not in _SEARCH]
