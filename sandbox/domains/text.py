"""Measuring and transforming text."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from math import ceil
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from sandbox.fields import Answer, Body

router = APIRouter()

_WORD = re.compile(r"[^\W_]+(?:['\u2019\-][^\W_]+)*")
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f]+(?=\s|$)")
_WORDS_PER_MINUTE = 200


class TextBody(Body):
    """A text to look at."""

    text: str = Field(min_length=1, max_length=20_000, description="The text.", examples=["The quick brown fox."])


class TextMeasures(Answer):
    """Size and readability of a text."""

    characters: int = Field(description="Characters, spaces included.")
    words: int = Field(description="Words.")
    unique_words: int = Field(description="Different words, upper and lower case being the same.")
    sentences: int = Field(description="Sentences.")
    reading_minutes: int = Field(description="Time to read it at 200 words a minute, rounded up.")
    readability_index: float | None = Field(
        description="Automated readability index, about the US school grade needed; null without words."
    )


class Slug(Answer):
    """A text made fit for an address."""

    slug: str = Field(description="Lower-case letters, digits and the separator only.", examples=["creme-brulee"])


class Similarity(Answer):
    """How alike two texts are."""

    method: str = Field(description="Method used.")
    score: float = Field(description="0 for nothing in common, 1 for equal.", ge=0, le=1)


@router.post("/text/analyze")
def analyze_text(body: TextBody) -> TextMeasures:
    """Count the characters, words and sentences of a text and estimate its reading time and readability."""
    words = _WORD.findall(body.text)
    sentences = max(len(_SENTENCE_END.findall(body.text)), 1 if words else 0)
    index = None
    if words:
        letters = sum(len(word) for word in words)
        index = round(4.71 * letters / len(words) + 0.5 * len(words) / sentences - 21.43, 1)
    return TextMeasures(
        characters=len(body.text),
        words=len(words),
        unique_words=len({word.casefold() for word in words}),
        sentences=sentences,
        reading_minutes=ceil(len(words) / _WORDS_PER_MINUTE),
        readability_index=index,
    )


@router.get("/text/slug")
def create_slug(
    text: Annotated[
        str, Query(min_length=1, max_length=500, description="Text, such as a title.", examples=["Crème brûlée!"])
    ],
    separator: Annotated[Literal["-", "_"], Query(description="What stands between words.")] = "-",
    max_length: Annotated[int, Query(ge=1, le=200, description="Largest length of the slug.")] = 80,
) -> Slug:
    """Turn a text into a slug for a web address: lower case, without accents, words joined by a separator."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain.replace("'", ""))
    return Slug(slug=separator.join(words)[:max_length].rstrip(separator))


@router.get("/text/similarity")
def compare_texts(
    first: Annotated[str, Query(max_length=300, description="First text.", examples=["kitten"])],
    second: Annotated[str, Query(max_length=300, description="Second text.", examples=["sitting"])],
    method: Annotated[
        Literal["sequence", "words"],
        Query(description="Compare the sequence of characters, or the set of words (Jaccard index)."),
    ] = "sequence",
) -> Similarity:
    """Compare two texts and get how similar they are, from 0 to 1."""
    if method == "words":
        left, right = ({word.casefold() for word in _WORD.findall(text)} for text in (first, second))
        score = len(left & right) / len(left | right) if left | right else 1.0
    else:
        score = SequenceMatcher(None, first, second, autojunk=False).ratio()
    return Similarity(method=method, score=round(score, 4))
