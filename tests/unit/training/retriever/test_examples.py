"""What the retriever is trained on: synthetic requests, pairs, splits, batches, negatives. No torch is needed."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever_svc.engine.texts import embedding_text
from services.contracts.api import Api, Location, Parameter
from services.encoder import Encoder
from training.retriever.batches import make_batches
from training.retriever.examples import Document, Pair, Request, Source, document, request_pairs, with_negatives
from training.retriever.mining import mine
from training.retriever.phrasing import join, name_provider, provider_names, rephrase, sentences, slip, with_value
from training.retriever.splits import without_near_duplicates
from training.retriever.synthesis import synthetic_pairs

HOLIDAYS = Api(
    id="cal.listHolidays",
    provider="calendarific.com~public_v2",
    name="listHolidays",
    description="Lists the public holidays of a country. Only <b>national</b> ones are given.",
    path="/v2/holidays",
    parameters=(Parameter(name="countryCode", wire_name="countryCode", location=Location.QUERY, required=True),),
)
MESSAGE = Api(id="chat.send", provider="-", name="sendMessage", description="Sends a text message to a person")
SUNRISE = Api(id="sun.rise", provider="sun", name="getSunrise", description="When the sun rises at a place")


def documents(*apis: Api, source: str = "s") -> dict[str, Document]:
    return {one.id: one for one in (document(source, api) for api in apis)}


def catalogue(count: int) -> dict[str, Document]:
    """So many APIs of five providers that say different things."""
    made = (
        Api(
            id=f"p{n % 5}.op{n}",
            provider=f"p{n % 5}.com",
            name=f"getThing{n}",
            description=f"Gets thing {n}",
            path=f"/a{n % 3}/{n}",
        )
        for n in range(count)
    )
    return documents(*made)


def test_the_api_tower_reads_what_serves() -> None:
    assert document("s", HOLIDAYS).text == embedding_text(HOLIDAYS)


def test_sentences_are_those_someone_would_say() -> None:
    assert sentences("Lists *all* [clusters](http://x.y). <p>Needs a role.</p>\n\nx. #### Notes") == [
        "Lists all clusters",
        "Needs a role",
    ]


def test_rephrasing_keeps_what_is_asked_and_varies_the_verb() -> None:
    said = {rephrase("Lists all clusters of a project", random.Random(seed)) for seed in range(200)}
    assert all("clusters of a project" in one for one in said)
    assert {"list all clusters of a project", "Lists all clusters of a project"} <= said
    assert any(one.startswith(("show me all all", "show all", "I want to")) for one in said)
    assert len(said) > 20


@pytest.mark.parametrize("text", ["x", "", "Public holidays of a country", "Größe der Datei ändern"])
def test_any_text_can_be_rephrased(text: str) -> None:
    for seed in range(50):
        assert text.lower()[1:] in rephrase(text, random.Random(seed)).lower()


def test_providers_are_named_as_people_do() -> None:
    assert provider_names("-") == []
    assert name_provider("List the holidays.", "-", random.Random(1)) == ""
    assert set(provider_names("twilio.com~twilio_verify_v2")) == {"twilio", "Twilio", "twilio verify"}
    assert set(provider_names("googleapis.com~gmail")) == {"googleapis", "Googleapis", "gmail", "Googleapis gmail"}
    said = {name_provider("List the holidays.", "adyen.com", random.Random(seed)) for seed in range(200)}
    assert "List the holidays. Use adyen." in said
    assert all("adyen" in one.lower() and "ist the holidays" in one for one in said)


@given(st.text(max_size=60), st.integers(0, 1_000))
def test_a_slip_changes_little_and_never_fails(text: str, seed: int) -> None:
    assert abs(len(slip(text, random.Random(seed)).split()) - len(text.split())) == 0


def test_a_value_stands_beside_the_parameters_name() -> None:
    assert " country code " in with_value("list holidays", HOLIDAYS, random.Random(3))
    assert with_value("send it", MESSAGE, random.Random(3)) == "send it"


def test_joined_requests_hold_every_part() -> None:
    for seed in range(50):
        said = join(["Gets a card", "Deletes the card.", "GETs a list?"], random.Random(seed))
        assert all(part in said for part in ("Gets a card", "eletes the card", "GETs a list"))


def test_synthetic_requests_ask_for_every_document_once_and_are_repeatable() -> None:
    known = catalogue(40)
    pairs = synthetic_pairs(known.values(), random.Random(5))
    assert sorted(pair.document for pair in pairs) == sorted(known)
    assert pairs == synthetic_pairs(known.values(), random.Random(5))
    assert pairs != synthetic_pairs(known.values(), random.Random(6))
    together = [pair for pair in pairs if len(pair.right) > 1]
    assert together
    assert all(pair.document in pair.right for pair in pairs)
    assert all(len({known[one].place[:3] for one in pair.right}) == 1 for pair in together)


def test_documents_without_prose_are_asked_for_by_name() -> None:
    bare = documents(Api(id="x.getUserById", provider="x", name="getUserById"))
    for seed in range(20):
        (pair,) = synthetic_pairs(bare.values(), random.Random(seed))
        assert pair.query.strip()


def test_requests_become_pairs_of_the_whole_its_clauses_and_its_steps(encoder: Encoder) -> None:
    known = documents(HOLIDAYS, MESSAGE, SUNRISE)
    query = "When does the sun rise in Faro? Then send Ana a text message."
    asked = Request(query, frozenset({"s/sun.rise", "s/chat.send"}), (("Tell Ana about it", "s/chat.send"),))
    pairs = request_pairs(Source("s", known, (asked,)), encoder, random.Random(1))
    said = {(pair.query, pair.document) for pair in pairs}
    assert {(query, "s/sun.rise"), (query, "s/chat.send"), ("Tell Ana about it", "s/chat.send")} <= said
    assert {
        ("When does the sun rise in Faro", "s/sun.rise"),
        ("send Ana a text message", "s/chat.send"),
    } <= said
    assert ("send Ana a text message", "s/sun.rise") not in said
    assert all(pair.right == asked.documents for pair in pairs)


def test_a_request_to_one_provider_is_also_asked_with_it_named(encoder: Encoder) -> None:
    asked = Request("Public holidays in Portugal", frozenset({"s/cal.listHolidays"}))
    pairs = request_pairs(Source("s", documents(HOLIDAYS), (asked,)), encoder, random.Random(1))
    assert [("calendarific" in pair.query.lower() or "public" in pair.query) for pair in pairs]
    assert len(pairs) == 2


def test_negatives_are_neither_right_nor_twins_of_what_is() -> None:
    again = HOLIDAYS.model_copy(update={"id": "cal.listHolidaysV3", "path": "/v3/holidays"})
    known = documents(HOLIDAYS, again, MESSAGE, SUNRISE)
    asked = Request("holidays", frozenset({"s/cal.listHolidays"}))
    found = ["s/cal.listHolidays", "s/cal.listHolidaysV3", "s/sun.rise", "s/chat.send"]
    mined = mine([asked], known, lambda _: found, 1)
    assert mined == {asked.documents: ("s/sun.rise",)}
    (pair,) = with_negatives([Pair("holidays", "s/cal.listHolidays", asked.documents)], mined)
    assert pair.negatives == ("s/sun.rise",)


def test_what_nearly_equals_a_held_out_request_is_not_trained_on() -> None:
    held = [Request("Create a card, then add a member to the card", frozenset({"s/a", "s/b"}))]
    same_words = Request("Create a card and then add the member to a card!", frozenset({"s/c"}))
    same_apis = Request("Something else entirely", frozenset({"s/a", "s/b"}))
    one_api = Request("Create a label", frozenset({"s/a"}))
    other = Request("Create a card", frozenset({"s/a", "s/z"}))
    assert without_near_duplicates([same_words, same_apis, one_api, other], held) == [one_api, other]


def test_another_split_holds_out_words_only() -> None:
    apart = [Request("Public holidays in Portugal", frozenset())]
    kept = Request("Holidays of Spain", frozenset({"s/a"}))
    assert without_near_duplicates([kept, Request("public holidays in Portugal?", frozenset({"s/a"}))], apart) == [kept]


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 6))
def test_no_batch_holds_what_is_right_for_another_pair_as_wrong(seed: int, size: int, run: int) -> None:
    rng = random.Random(seed)
    known = catalogue(30)
    pairs = synthetic_pairs(known.values(), rng) + synthetic_pairs(known.values(), rng)
    wrong = tuple(rng.sample(sorted(known), 4))
    pairs = [replace(pair, negatives=wrong) for pair in pairs]
    batches = make_batches(pairs, known, size, run, 1.0, rng)
    assert sum(len(batch.pairs) for batch in batches) <= len(pairs)
    for batch in batches:
        assert 2 <= len(batch.pairs) <= size
        present = [pair.document for pair in batch.pairs]
        assert len(set(present)) == len(present)
        for pair in batch.pairs:
            assert not pair.right & (set(present) - {pair.document})
            assert not pair.right & set(batch.negatives)


def test_neighbours_share_a_batch_and_nearly_all_pairs_are_used() -> None:
    known = catalogue(200)
    pairs = [Pair(f"ask {one}", one, frozenset({one})) for one in known]
    batches = make_batches(pairs, known, 20, 10, 0.0, random.Random(1))
    assert sum(len(batch.pairs) for batch in batches) == 200
    providers = [len({known[pair.document].api.provider for pair in batch.pairs}) for batch in batches]
    assert max(providers) <= 4  # two runs of ten, each of one provider or at the border of two


def test_twins_are_never_wrong_for_each_other() -> None:
    again = HOLIDAYS.model_copy(update={"id": "cal.listHolidaysV3"})
    known = documents(HOLIDAYS, again, MESSAGE)
    pairs = [Pair(f"ask {one}", one, frozenset({one}), ("s/cal.listHolidaysV3",)) for one in known]
    for seed in range(20):
        for batch in make_batches(pairs, known, 3, 1, 1.0, random.Random(seed)):
            said = [known[pair.document].twin for pair in batch.pairs] + [known[one].twin for one in batch.negatives]
            assert len(set(said)) == len(said)
