"""What an API offers a request: its items, their vectors, and the words they share with a request."""

from collections.abc import Sequence

import numpy as np
import pytest
from pydantic import JsonValue

from planner_svc.backends.compact.encodings import Encodings
from planner_svc.backends.compact.inputs import FEATURES, WORD, arrange, token_stems
from planner_svc.backends.compact.items import MAX_HEAD, SHAPES, Kind, encode, items_of, matches, shape_of
from planner_svc.reading.api_cache import MOST_CHARACTERS_EACH, ApiCache
from planner_svc.reading.profile import Profile, read_profile
from services.contracts.api import Api
from services.encoder import Encoder, TokenEncoding, Vectors
from services.errors import DeadlineExceeded
from tests.unit.planner_svc.worlds import GET_WEATHER, HOSTILE, SHOP, api, param


def test_an_api_comes_first_then_its_parameters_with_their_options_then_its_answers() -> None:
    items = items_of(read_profile(GET_WEATHER))
    kinds = [item.kind for item in items]
    assert kinds == [Kind.API, *[Kind.PARAMETER] * 3, Kind.OPTION, Kind.OPTION, Kind.OUTPUT, Kind.OUTPUT]
    assert [item.text for item in items if item.kind is Kind.OPTION] == ["units metric", "units imperial"]
    assert "wind" in items[-1].words


def test_required_parameters_are_read_where_there_are_too_many() -> None:
    wide = api("wide", "Get wide things.", *(param(f"p{n}", required=n == 149) for n in range(150)))
    profile = read_profile(wide)
    read = [profile.slots[item.slot].name for item in items_of(profile) if item.kind is Kind.PARAMETER]
    assert len(read) < 150
    assert read[-1] == "p149"


def test_every_item_has_a_direction_of_its_own_and_is_as_long_as_a_token(encoder: Encoder) -> None:
    read = encode(read_profile(GET_WEATHER), encoder)
    assert read.vectors.shape == (len(read.items), encoder.dimension)
    lengths, tokens = (np.linalg.norm(part.astype(np.float32), axis=1) for part in (read.vectors, read.head))
    assert tokens.min() * 0.8 < lengths.min() < lengths.max() < tokens.max() * 1.2
    assert len(np.unique(read.vectors, axis=0)) == len(read.items)


def test_an_apis_own_words_are_kept_one_by_one(encoder: Encoder) -> None:
    brief = encode(read_profile(api("a", "b", param("much"))), encoder)
    long = encode(read_profile(api("a", "word " * 300)), encoder)
    assert 0 < len(brief.head) < len(long.head) == MAX_HEAD


def test_an_api_says_whose_it_is_and_where() -> None:
    assert "shop get" in items_of(read_profile(GET_WEATHER))[0].text


@pytest.mark.parametrize("one", HOSTILE, ids=lambda one: one.id[:20])
def test_hostile_apis_are_read_too(one: Api, encoder: Encoder) -> None:
    read = encode(read_profile(one), encoder)
    assert np.isfinite(read.vectors).all()
    assert (np.abs(read.vectors).max(axis=1) > 0).all()


def test_shapes_tell_what_can_fill_a_parameter() -> None:
    slots = {slot.name: shape_of(slot) for one in SHOP for slot in read_profile(one).slots}
    assert slots["products"] != slots["reason"]
    assert slots["express"] != slots["budget"]
    assert all(0 <= shape < 1 << SHAPES for shape in slots.values())


def test_words_are_matched_whatever_their_form() -> None:
    query = "Prices of products?"
    tokens = token_stems(query, [(0, 0), (0, 6), (7, 9), (10, 13), (13, 18), (18, 19), (0, 0)])
    items = items_of(read_profile(SHOP[5]))
    found = matches(items, tokens)
    product = next(n for n, item in enumerate(items) if item.kind is Kind.PARAMETER)
    assert found[product].tolist() == [0, 0, 0, 1, 1, 0, 0]  # both pieces of the word


def test_a_request_without_matching_words_is_arranged(encoder: Encoder) -> None:
    read = [encode(read_profile(one), encoder) for one in SHOP[:2]]
    inputs = arrange("?", [(0, 0), (0, 1), (0, 0)], read, [[0.5] * FEATURES, [0.0] * FEATURES])
    assert not inputs.matches.any()
    assert inputs.first == (0, len(read[0].items))
    assert inputs.features[0].tolist() == [0.5] * FEATURES
    assert inputs.features[1:].sum() == 0
    own = [len(one.items) + len(one.head) for one in read]
    assert inputs.rows.shape == (2, max(own))
    assert [int((row >= 0).sum()) for row in inputs.rows] == own
    assert (inputs.unit_kind[inputs.place] == inputs.kind).all()
    assert int((inputs.unit_kind == WORD).sum()) == sum(len(one.head) for one in read)
    assert inputs.units[inputs.place[inputs.first[1]]].tolist() == read[1].vectors[0].astype(np.float32).tolist()
    options = np.flatnonzero(inputs.kind == Kind.OPTION)
    assert (inputs.kind[inputs.parent[options]] == Kind.PARAMETER).all()


class Counting:
    """An encoder that counts its passes."""

    name, dimension = "counting", 4

    def __init__(self) -> None:
        self.passes = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError

    def encode_tokens(self, text: str, *, special: bool = False) -> TokenEncoding:
        self.passes += 1
        return TokenEncoding(np.ones((1, 4), np.float32), [(0, len(text))], np.ones(4, np.float32))


def test_reading_an_api_may_end_before_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, JsonValue] = {"type": "string", "enum": [f"{n} " + "word " * 11 for n in range(16)]}
    wide = read_profile(api("wide", "Get wide things.", *(param(f"p{n}", options) for n in range(24))))
    free, stopped = Counting(), Counting()
    encode(wide, free)
    assert free.passes > 50
    left = iter(range(5))

    def check() -> None:
        if next(left, None) is None:
            raise DeadlineExceeded("It takes more than 3 s of processor time.")

    monkeypatch.setattr("planner_svc.backends.compact.items.checkpoint", check)
    with pytest.raises(DeadlineExceeded):
        encode(wide, stopped)
    assert stopped.passes == 5


def test_reading_apis_may_end_before_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read before an API's first pass takes time as well, for large documents with few words."""
    steps: list[str] = []

    def read(one: Api) -> Profile:
        steps.append(one.name)
        return read_profile(one)

    monkeypatch.setattr("planner_svc.backends.compact.encodings.checkpoint", lambda: steps.append("look"))
    monkeypatch.setattr("planner_svc.backends.compact.encodings.profile_of", read)
    encodings = Encodings(Counting())
    for number in range(2):
        encodings.of(api(f"get{number}", "Get things."))
    assert steps == ["look", "get0", "look", "get1"]


def test_an_api_too_large_to_be_kept_is_read_for_each_request() -> None:
    encoder = Counting()
    encodings = Encodings(encoder)
    small = api("small", "Get things.")
    large = small.model_copy(
        update={"id": "x.large", "definitions": {"a": {"description": "x" * MOST_CHARACTERS_EACH}}}
    )
    for one in (small, small, large, large):
        assert encodings.of(one).profile.api == one
    assert encoder.passes == 3


def test_what_is_kept_of_apis_is_bounded_by_what_they_weigh() -> None:
    one = api("small", "Get things.")
    size = len(one.model_dump_json())
    cache: ApiCache[int] = ApiCache(100, most_characters=3 * size, most_characters_each=size)
    for number in range(5):
        cache.put(str(number), number, one)
        cache.put(str(number), number, one)  # again: it weighs as much as before
        assert cache.get("0") in (0, None)
    cache.put("large", 7, one.model_copy(update={"summary": one.summary + "x"}))
    assert [cache.get(key) for key in ("0", "1", "2", "3", "4", "large")] == [0, None, None, 3, 4, None]
    small: ApiCache[int] = ApiCache(10)
    for number in range(5):
        small.put(str(number), number, one, count=4)
    assert [small.get(str(number)) for number in range(5)] == [None, None, None, 3, 4]


def test_an_ordinary_catalogue_is_kept_whole() -> None:
    one = api("small", "Get things.")
    one = one.model_copy(update={"description": "x" * (4_990 - len(one.model_dump_json()))})
    cache: ApiCache[int] = ApiCache(80_000)
    for number in range(4_000):
        cache.put(str(number), number, one, count=20)
    assert len(cache) == 4_000
