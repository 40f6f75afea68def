"""Splits a request into clauses that each ask for one thing, by rules and with offsets into the request.

A request that needs several APIs is close to none of them as a whole, but each of its clauses is close to one. An
unnecessary split costs little, since the whole request counts as one more clause. So the rules split generously.
"""

from __future__ import annotations

import re

from services.contracts.retrieval import Clause

MAX_CLAUSES = 16
MAX_SPLIT_CHARS = 2_000
"""Characters of a request that are split: twice the longest request in any data set. It bounds the encoder's work."""
_MIN_WORDS = 2

_QUOTED = re.compile(r"\"[^\"\n]{1,300}\"|(?<![\w'])'[^'\n]{1,300}'(?!\w)|`[^`\n]{1,300}`|[“«][^”»\n]{1,300}[”»]")
_ABBREVIATION = re.compile(r"(?:\b[A-Za-z]|\b(?:Dr|Mr|Mrs|Ms|Prof|St|No|vs|etc|approx|e\.g|i\.e|Inc|Ltd|Jr|Sr))\.$")

_VERBS = (
    "add|adjust|analyze|analyse|apply|approve|archive|assess|assign|attach|book|buy|calculate|call|"
    "cancel|change|charge|check|choose|close|collect|compare|compile|compute|configure|confirm|"
    "connect|convert|copy|count|create|deactivate|debit|define|delete|deliver|deploy|describe|detect|"
    "determine|disable|display|download|draft|edit|email|enable|encode|enroll|ensure|estimate|"
    "evaluate|export|extract|fetch|fill|filter|find|fix|forecast|format|forward|gather|generate|get|"
    "give|highlight|identify|import|include|inform|initiate|inspect|install|invite|issue|launch|let|"
    "link|list|locate|look|make|mark|measure|merge|modify|monitor|move|name|notify|obtain|open|"
    "optimize|order|pay|perform|pick|place|plan|play|post|predict|prepare|print|process|provide|"
    "publish|purchase|put|query|rate|read|rebook|recommend|record|refund|register|remind|remove|"
    "rename|render|renew|rent|reply|report|request|reschedule|reserve|reset|resolve|restart|retrieve|"
    "return|reverse|review|revoke|round|run|save|scan|schedule|search|see|select|send|set|share|"
    "show|simulate|solve|sort|start|stop|store|submit|subscribe|suggest|summarize|switch|sync|take|"
    "tell|test|track|transfer|translate|trigger|turn|update|upgrade|upload|use|validate|verify|view|"
    "watch|work|write"
)
_QUESTIONS = (
    "what|which|when|where|who|whose|how|why|is|are|was|were|does|do|did|can|could|will|would|"
    "should|may|i|i'd|i'm|i'll|we|let's|please|if|in"
)
_OBJECTS = (
    "the|an?|my|our|your|his|her|their|its?|me|us|them|him|this|that|these|those|all|any|every|each|some|how|what|which"
)
_STARTERS = f"{_VERBS}|{_QUESTIONS}"

_CALENDAR = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?:january|february|march|april|may|june|july|august|september|"
    r"october|november|december)\b|weeks?\b|weekend\b|"
    r"months?\b|years?\b|days?\b|quarter\b|hours?\b|few\b|couple\b|one\b|two\b|three\b|\d"
)
"""What follows "next" where it says when: "from next Friday"."""
_SEQUENCE = (
    r"(?:and\s+|but\s+)?(?:then|also|after\s+(?:that|this|which)|afterwards?|thereafter|subsequently|additionally|"
    r"in\s+addition|furthermore|moreover|besides|finally|lastly|at\s+last|as\s+well\s+as|followed\s+by|"
    rf"next(?!\s+(?:{_CALENDAR}))|"
    r"secondly|thirdly|first(?:ly)?|meanwhile|at\s+the\s+same\s+time|plus)"
)
# Possessive quantifiers and the look-behind keep this linear in the length of the request, even for runs of blanks.
_COMMA = r"(?<!\s)(?:\s*+,)?\s++"
_BOUNDARY = re.compile(
    rf"""
      (?P<sentence>[.!?;…][)"'”»]*+(?:\s++|$)|[\u3002\uff01\uff1f\uff1b]\s*+|(?<!\s)\s*\n\s*+|:\s++(?=\d[.)]|[-*•]))
      (?:{_SEQUENCE}\b,?\s++)?
    | {_COMMA}{_SEQUENCE}\b,?\s++                                   # "and then", "also", ...
    | {_COMMA}(?:and|but|&)\s++(?=(?:{_STARTERS})\b)                # "and" before a verb or a question
    | (?<!\s),\s++(?=(?:{_VERBS})\s(?:(?:{_OBJECTS})\b|["'\d]))  # a list of imperatives
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LEADING = re.compile(rf"(?:[-*•]\s+|\d+[.)]\s+|{_SEQUENCE}\b,?\s+|and\s+|please\s+)+", re.IGNORECASE)


def split_clauses(query: str) -> tuple[Clause, ...]:
    """The clauses of a request in their order, at most ``MAX_CLAUSES``; none if the request is a single clause.

    Text after ``MAX_SPLIT_CHARS`` belongs to the last clause. So an encoder reads at most that many characters in split
    clauses, and two long texts: the rest of the request, and the whole of it.

    Offsets are characters of ``query``; ``query[clause.start:clause.end] == clause.text``.
    """
    masked = _QUOTED.sub(lambda match: "Q" * len(match[0]), query)
    spans, start = [], 0
    for match in _BOUNDARY.finditer(masked, 0, MAX_SPLIT_CHARS):
        before = masked[max(start, match.start() - 8) : match.start() + 1]
        if match["sentence"] is not None and _ABBREVIATION.search(before):
            continue
        spans.append((start, match.start()))
        start = match.end()
    spans.append((start, len(query)))
    clauses = [_trim(query, masked, *span) for span in _merge_short(masked, spans)]
    kept = [clause for clause in clauses if clause.text]
    if len(kept) > MAX_CLAUSES:
        first, last = kept[MAX_CLAUSES - 1].start, kept[-1].end
        kept = [*kept[: MAX_CLAUSES - 1], Clause(text=query[first:last], start=first, end=last)]
    return tuple(kept) if len(kept) > 1 else ()


def _merge_short(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join parts that are too short to ask for anything ("Thanks", "Hello") to the part before them."""
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and len(text[start:end].split()) < _MIN_WORDS:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _trim(query: str, masked: str, start: int, end: int) -> Clause:
    """The clause without blanks, bullets and sequencing words around it."""
    while start < end and query[start].isspace():
        start += 1
    if match := _LEADING.match(masked, start, end):
        start = match.end()
    while end > start and (query[end - 1].isspace() or query[end - 1] in ",;:."):
        end -= 1
    return Clause(text=query[start:end], start=start, end=end)
