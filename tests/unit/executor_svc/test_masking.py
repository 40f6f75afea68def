"""Secrets are masked wherever and however they turn up."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, SecretStr

from executor_svc.masking import MASK, Masker, forms
from executor_svc.secret_store import SecretStore
from services.contracts.api import SecretKind

CANARY = "c4n\"ary/ü+ <k&e'y>"
TEXT = st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]))
SECRET = TEXT.filter(lambda text: len(text) >= 6)


@given(SECRET, TEXT, TEXT)
def test_a_secret_is_masked_in_any_surroundings(secret: str, before: str, after: str) -> None:
    masked = Masker([secret]).json([before + secret + after, {secret: secret}])
    assert isinstance(masked, list)
    assert MASK in str(masked[0])
    assert secret not in str(masked[0])
    assert masked[1] == {MASK: MASK}


@pytest.mark.parametrize(
    "encode",
    [
        lambda s: quote(s, safe=""),
        lambda s: quote(s, safe="").lower(),
        quote,
        quote_plus,
        lambda s: quote(s, safe="!'()*"),
        lambda s: quote(quote(s, safe=""), safe=""),
        lambda s: json.dumps(s)[1:-1],
        lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
        lambda s: json.dumps(s)[1:-1].replace("\\u00fc", "\\u00FC"),
        lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
        lambda s: json.dumps(s)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        lambda s: json.dumps(json.dumps(s)[1:-1])[1:-1],
        html.escape,
        lambda s: html.escape(s).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
        lambda s: s.encode().hex(),
        lambda s: s.encode().hex().upper(),
    ],
)
def test_encoded_secrets_are_masked(encode: Callable[[str], str]) -> None:
    text = encode(CANARY)
    masked = Masker([CANARY]).text(f"<{text}>")
    assert masked.startswith(f"<{MASK}")
    assert len(masked) <= len(f"<{MASK}x>")  # of base64 the last digit may be shared with what follows


@given(SECRET, st.binary(max_size=9), st.binary(max_size=9))
def test_base64_of_whatever_holds_a_secret_is_masked(secret: str, before: bytes, after: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + secret.encode() + after).decode()
        masked = Masker([secret]).text(text)
        # What is left of it are the neighbours' digits, and one that the secret shares with each of them.
        assert MASK in masked
        assert len(masked) - len(MASK) <= len(text) - len(secret.encode()) * 8 // 6 + 2


@given(SECRET, TEXT, st.integers(min_value=0))
def test_a_text_that_is_cut_off_ends_with_no_part_of_a_secret(secret: str, before: str, at: int) -> None:
    """As much is taken from the end as a form of the secret can be long, and what is left is masked as it was."""
    masker, text = Masker([secret]), "." * 5_000 + (before + secret)[: at % (len(before + secret) + 1)]
    whole, cut = masker.text(text), masker.cut_text(text)
    assert whole.startswith(cut)
    assert len(whole) - len(cut) >= max(len(form) for form in forms(secret))


@pytest.mark.parametrize("guess", ["", "c4n", 'c4n"ary/ü+ <k&e', "c4n\"ary/ü+ <k&e'y", "something else"])
@pytest.mark.parametrize("encode", [str, lambda s: s.encode().hex(), lambda s: quote(s, safe="")])
def test_a_guess_at_a_cut_looks_like_any_other_text(guess: str, encode: Callable[[str], str]) -> None:
    masker, said = Masker([CANARY]), encode(guess)
    other = "z" * len(said)
    told, expected = masker.cut_text("x" * 16_000 + said), masker.cut_text("x" * 16_000 + other)
    assert told == expected


@pytest.mark.parametrize("before", range(-1, len(CANARY) + 2))
def test_long_texts_are_masked_wherever_the_secret_stands(before: int) -> None:
    text = "." * (65_536 - before) + f"{CANARY}{CANARY}" + "." * 70_000 + CANARY
    assert Masker([CANARY]).text(text) == text.replace(CANARY, MASK)


def test_a_long_secret_has_few_forms_and_is_masked_in_each() -> None:
    """Each form is compiled, on the event loop: three hundred of 32,768 characters took a minute and 2 GB."""
    secret = CANARY * 50
    found = forms(secret)
    assert sum(map(len, found)) < 100 * len(secret)
    for encoded in (
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        html.escape(secret),
        secret.encode().hex(),
    ):
        assert Masker([secret]).text(f"<{encoded}>") == f"<{MASK}>"


def test_a_secret_of_digits_is_masked_as_a_number_too() -> None:
    value: JsonValue = {"key": 908172635412, "other": 908172635413, "list": [908172635412, 1.5, True, None]}
    assert Masker(["908172635412"]).json(value) == {"key": MASK, "other": 908172635413, "list": [MASK, 1.5, True, None]}
    assert Masker(["-12345.75"]).json([-12345.75, 12345.75]) == [MASK, 12345.75]
    other: JsonValue = [908172635412, 0, 10**5_000]
    for secret in ("0908172635412", "908172635412x", "0", "9" * 5_000):
        assert Masker([secret]).json(other) is other


def test_logins_are_masked_as_they_travel() -> None:
    entry = {"username": "user", "password": CANARY, "hosts": ["api.example.com"]}
    store = SecretStore.load(None, SecretStr(json.dumps({"l": entry})))
    login = store.get("l", SecretKind.BASIC)
    assert login is not None
    for form in login.masked():
        assert Masker(login.masked()).text(f"<{form}>") == f"<{MASK}>"


def test_values_without_secrets_are_passed_through_as_they_are() -> None:
    value: JsonValue = {"a": [1, {"b": "a longer text than any secret"}], "c": "d"}
    assert Masker([CANARY]).json(value) is value
    assert Masker([]).json(value) is value
