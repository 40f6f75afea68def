"""What a model writes as a sentence: what is taken, and all that is not."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner_svc.sentences.slots import SentenceSlot
from planner_svc.sentences.template import SentenceRejected, read_template
from services.contracts.sentence import MAX_TEMPLATE_CHARS

QUERY = "How long is flight AF123 to Paris on 3 May, and is ord_8 paid?"
MINUTES = SentenceSlot(
    "duration_minutes",
    "number",
    many=False,
    is_boolean=False,
    description="Duration in minutes",
    words="duration minutes get flight. Duration in minutes, not hours; one or two",
)
PAID = SentenceSlot("paid", "yes or no", many=False, is_boolean=True, description="Whether it is paid", words="paid")


def read(text: str, *slots: SentenceSlot, query: str = QUERY) -> tuple[str | int, ...]:
    return read_template(text, slots or (MINUTES,), query)


@pytest.mark.parametrize(
    "text",
    [
        "Flight AF123 to Paris takes {duration_minutes} minutes.",
        '"Flight AF123 to Paris takes {duration_minutes} minutes."',
        "  Flight AF123 to  Paris takes { duration_minutes } minutes\n\nThis sentence says how long it takes.",
        'Flight AF123 to Paris takes "{duration_minutes}" minutes.',
        "Flight AF123 to Paris takes **{duration_minutes}** minutes.",
    ],
)
def test_a_sentence_is_taken_without_what_models_put_around_it(text: str) -> None:
    assert read(text) == ("Flight AF123 to Paris takes ", 0, " minutes.")


def test_words_in_other_forms_and_the_requests_own_codes_are_taken() -> None:
    assert read("Paris's flights on 3 May: {duration_minutes} minute.") == ("Paris's flights on 3 May: ", 0, " minute.")
    assert read('"flight AF123" takes {duration_minutes}.') == ('"flight AF123" takes ', 0, ".")
    assert read("Minutes ({duration_minutes}): one.", query="one")[1] == 0
    assert read("{duration_minutes} minutes. On 3 May: paid.")[0] == 0
    assert read("ord_8 is paid: {paid}. It takes {duration_minutes}.", MINUTES, PAID)[1] == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "every slot once"),
        ("The flight takes a while.", "every slot once"),
        ("{duration_minutes} and {duration_minutes}.", "every slot once"),
        ("The flight takes {minutes}.", "slot that there is not"),
        ("The flight takes {duration_minutes} of {}.", "slot that there is not"),
        ("The flight takes {duration_minutes.__class__}.", "slot that there is not"),
        ("The flight takes {duration_minutes!r}.", "slot that there is not"),
        ("The flight takes {{duration_minutes}}.", "characters"),
        ("The flight takes {duration_minutes} {.", "characters"),
        ("The flight takes {duration_minutes}\x1b[31m.", "characters"),
        ("The flight takes {duration_minutes}\u202e.", "characters"),
        ("The flight takes {duration_minutes}\u200b.", "characters"),
        ("<b>The flight takes {duration_minutes}</b>.", "characters"),
        ("[The flight]({duration_minutes}).", "characters"),
        ("# The flight: {duration_minutes}.", "characters"),
        ("Is the flight {duration_minutes}?", "characters"),
        ('The flight takes "3 {duration_minutes}" minutes.', "quotes"),
        ('"Paris flight" takes {duration_minutes} minutes.', "quotes"),
        ("{duration_minutes}.", "no words"),
        ("The flight is cheap: {duration_minutes}.", "'cheap'"),
        ("The flight to Rome takes {duration_minutes} minutes.", "'Rome'"),
        ("Le vol dure {duration_minutes} minutes.", "'Le'"),
        ("Ignore the flight: {duration_minutes}.", "'Ignore'"),
        ("The flight takes {duration_minutes} seconds.", "'seconds'"),
        ("The flight does not take {duration_minutes} minutes.", "'not'"),
        ("One flight takes {duration_minutes} minutes.", "'One'"),
        ("The flight takes {duration_minutes} %.", "'%'"),
        ("The flight takes €{duration_minutes}.", "'€'"),
        ("The flight takes 90 of {duration_minutes} minutes.", "number"),
        ("Flight AF124 takes {duration_minutes} minutes.", "number"),
        ("The flight on -3 May takes {duration_minutes}.", "number"),
        ("The flight on 3.0 May takes {duration_minutes}.", "number"),
        ("The flight on 33 May takes {duration_minutes}.", "number"),
        ("The flight on ³ May takes {duration_minutes}.", "number"),
        ("Flight ord_9 takes {duration_minutes}.", "number or a code"),
        ("Flight flight_paris takes {duration_minutes}.", "number or a code"),
        ("The flight takes 3{duration_minutes} minutes.", "by itself"),
        ("The flight takes 3 {duration_minutes} minutes.", "by itself"),
        ("The flight takes {duration_minutes} 3 minutes.", "by itself"),
        ("The flight takes {duration_minutes}3 minutes.", "by itself"),
        ("The flight takes -{duration_minutes} minutes.", "by itself"),
        ("The flight takes {duration_minutes}minutes.", "by itself"),
        ("The flight takes - {duration_minutes} minutes.", "another value"),
        ("The flight takes \u2013 {duration_minutes} minutes.", "another value"),
        ("The flight takes - ({duration_minutes}) minutes.", "another value"),
        ("The flight takes . {duration_minutes} minutes.", "belongs to no word"),
        ("The flight takes .({duration_minutes}) minutes.", "belongs to no word"),
        ("The flight takes , {duration_minutes} minutes.", "belongs to no word"),
        ("Minutes: - - {duration_minutes}.", "another value"),
        ("The flight takes {duration_minutes} - minutes.", "belongs to no word"),
        ("- The flight takes {duration_minutes} minutes.", "belongs to no word"),
        ("The flight takes- {duration_minutes} minutes.", "another value"),
        ("The flight takes:-({duration_minutes}) minutes.", "another value"),
        ("{duration_minutes}. The flight takes minutes.", "number of an item"),
        ("{duration_minutes}) The flight takes minutes.", "number of an item"),
        ("The flight takes {duration_minutes}.3 minutes.", "by itself"),
        ("flight.paris takes {duration_minutes}.", "address"),
        ("flight://paris takes {duration_minutes}.", "address"),
        ("flight:paris takes {duration_minutes}.", "address"),
        ("The flight. It is paid. It takes {duration_minutes}. ", "too many sentences"),
        ("The flight " * 40 + "takes {duration_minutes}.", "too long"),
    ],
)
def test_a_text_is_refused_that_says_more_than_it_can_know(text: str, why: str) -> None:
    with pytest.raises(SentenceRejected, match=re.escape(why)):
        read(text)


def test_slots_side_by_side_are_refused() -> None:
    with pytest.raises(SentenceRejected, match="by itself"):
        read(
            "It takes {duration_minutes}{duration_hours}.",
            MINUTES,
            SentenceSlot("duration_hours", "number", False, False, "", ""),
        )


@pytest.mark.parametrize("text", ["It is paid {paid}.", "Paid? {paid}.", "{paid}: it is paid.", "It is {paid} paid."])
def test_a_yes_or_no_is_told_after_a_colon_alone(text: str) -> None:
    with pytest.raises(SentenceRejected):
        read(text, PAID)


@pytest.mark.parametrize("word", ["not", "no", "only", "all", "two", "hundred", "minus", "percent", "yes"])
def test_what_denies_or_counts_is_taken_from_the_request_alone(word: str) -> None:
    documented = SentenceSlot(
        "price", "number", many=False, is_boolean=False, description="", words=f"the price, {word} or {word}s"
    )
    text = f"The price {word} is {{price}}."
    with pytest.raises(SentenceRejected, match=word):
        read(text, documented, query="What is the price?")
    assert read(text, documented, query=f"What is the price, {word}?") == (f"The price {word} is ", 0, ".")


SAID = [
    "How",
    "flight",
    "Flights",
    "AF123",
    "Paris",
    "3",
    "ord_8",
    "minutes",
    "durations",
    "the",
    "is",
    "takes",
    "it's",
]
UNSAID = ["Rome", "not", "90", "AF12", "euros", "evil", "ord_9", "one", "12:30", "3.5", "\u0967", "\u00bd", "%", "nope"]
PUNCTUATION = [
    '"',
    " ",
    "  ",
    ". ",
    ", ",
    ": ",
    "-",
    "/",
    "'",
    ".",
    "!",
    "(",
    ")",
    "_",
    "\u00a0",
    "\u2019",
    "\n",
    "{",
    "}",
    "\x00",
]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*SAID, *SAID, *UNSAID, "{duration_minutes}", "{duration_minutes}"]),
            st.sampled_from([" ", " ", " ", *PUNCTUATION]),
        ),
        max_size=12,
    )
)
def test_whatever_is_taken_holds_each_slot_once_and_nothing_unsaid(words: Sequence[tuple[str, str]]) -> None:
    try:
        pieces = read("".join(word + mark for word, mark in words))
    except SentenceRejected:
        return
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    assert [piece for piece in pieces if isinstance(piece, int)] == [0]
    assert len(text) <= MAX_TEMPLATE_CHARS + 1
    assert not re.search(r"[{}\x00-\x1f]", text)
    for word in UNSAID:
        assert not re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text)
    allowed = {part for word in SAID for part in re.findall(r"[a-z]+|\d+", word.lower())} | {"s"}
    assert set(re.findall(r"[^\W\d_]+|\d+", text.lower())) <= allowed


@given(st.text(max_size=80), st.text(max_size=40))
def test_any_text_is_taken_or_refused(before: str, after: str) -> None:
    try:
        pieces = read(f"{before}{{duration_minutes}}{after}")
    except SentenceRejected:
        return
    assert 0 in pieces
