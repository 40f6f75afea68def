"""A full name is split between the arguments for the first and for the last name."""

import pytest

from planner_svc.backends.compact.draft_calls import DraftCall, LiteralArgument
from planner_svc.backends.compact.person_names import split_full_name
from planner_svc.reading.profile import read_profile
from tests.unit.planner_svc.worlds import api, param

NAMES = ("firstName", "lastName")


def split(query: str, first: str, last: str, names: tuple[str, str] = NAMES, *, required: bool = True) -> list[object]:
    profile = read_profile(api("create", "Create", *(param(name, required=required) for name in names)))
    places = [(query.index(said), query.index(said) + len(said)) for said in (first, last)]
    call = DraftCall(0, 0.9)
    for name, (start, end) in zip(names, places, strict=True):
        call.arguments[name] = LiteralArgument(query[start:end], (start, end), 0.9)
    split_full_name(call, profile, query)
    values = {name: one.value for name, one in call.arguments.items() if isinstance(one, LiteralArgument)}
    assert set(names) - values.keys() == set(call.missing)
    return [values.get(name) for name in names]


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("Anna Keller", ["Anna", "Keller"]),
        ("Anna Maria van der Berg", ["Anna", "Maria van der Berg"]),
        ("Mr. Ben Wood", ["Ben", "Wood"]),
    ],
)
def test_the_same_words_are_split(said: str, parts: list[str]) -> None:
    assert split(f"Register {said} as a guest", said, said) == parts


@pytest.mark.parametrize(("said", "parts"), [("Anna", ["Anna", None]), ("Dr Wood", [None, "Dr Wood"])])
def test_one_name_is_not_used_twice(said: str, parts: list[str | None]) -> None:
    """What is missing is asked for."""
    assert split(f"Register {said} as a guest", said, said) == parts


@pytest.mark.parametrize(
    "names",
    [
        ("given_name", "family_name"),
        ("forename", "surname"),
        ("guest_first_name", "guest_last_name"),
        ("firstname", "lastname"),
    ],
)
def test_the_arguments_are_known_by_their_names(names: tuple[str, str]) -> None:
    assert split("Register Anna Keller", "Anna Keller", "Anna Keller", names) == ["Anna", "Keller"]


def test_what_one_argument_says_is_left_out_of_the_other() -> None:
    query = "Register Anna Maria Keller"
    assert split(query, "Anna Maria", "Anna Maria Keller") == ["Anna Maria", "Keller"]
    assert split(query, "Anna Maria Keller", "Keller") == ["Anna Maria", "Keller"]
    assert split(query, "Anna Maria", "Keller") == ["Anna Maria", "Keller"]


@pytest.mark.parametrize(
    ("said", "first", "last", "parts"),
    [
        ("Tom van der Berg", "Tom", "der Berg", ["Tom", "van der Berg"]),
        ("Maria del Carmen Ruiz", "Maria", "Carmen Ruiz", ["Maria", "del Carmen Ruiz"]),
        ("Anna Maria Keller", "Anna", "Keller", ["Anna Maria", "Keller"]),
        ("Anna and Keller", "Anna", "Keller", ["Anna", "Keller"]),
    ],
)
def test_what_is_between_both_names_is_a_part_of_one(said: str, first: str, last: str, parts: list[str]) -> None:
    assert split(f"Register {said} as a guest", first, last) == parts


@pytest.mark.parametrize(
    "names", [("first_name", "company_name"), ("guest_first_name", "payer_last_name"), ("name", "alias")]
)
def test_other_arguments_keep_the_same_words(names: tuple[str, str]) -> None:
    assert split("Register Anna Keller", "Anna Keller", "Anna Keller", names) == ["Anna Keller"] * 2


def test_optional_arguments_keep_the_same_words() -> None:
    assert split("Find Anna Keller", "Anna Keller", "Anna Keller", required=False) == ["Anna Keller"] * 2
