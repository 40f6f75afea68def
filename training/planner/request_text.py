"""Text around a request: polite phrases, a reason, connectors between its parts, and typos."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from training.planner import banks
from training.planner.phrasing import PhrasedCall
from training.planner.pieces import Piece, Text, and_list, bare, capital, fill, plain, small, text

_ORDERS = (
    "{x}", "{x}", "{x}", "{x}", "{x}", "please {x}", "please {x}", "can you {x}?", "could you {x}?", "{x}, please",
    "could you please {x}?", "{x} for me", "would you {x}?", "kindly {x}", "I need you to {x}", "can you {x} for me?",
)  # fmt: skip
_OWN = (
    "I want to {x}",
    "I need to {x}",
    "I'd like to {x}",
    "help me {x}",
    "we need to {x}",
    "I have to {x}",
    "I would like to {x}",
)
_NOT_OWN = re.compile(r"^(?:\w+ me|show|tell|give|pull|find me|have a|recommend|suggest|get me|let)\b")
_OPENINGS = ("Hi, ", "Hello! ", "Hey, ", "Good morning. ", "Quick one: ", "Hi there, ", "OK, ", "So, ")
_CLOSINGS = (
    "Thanks!",
    "Thank you.",
    "Thanks in advance.",
    "Cheers",
    "That's all.",
    "It's rather urgent.",
    "Take your time.",
)
_CONTEXTS = (
    "I'm preparing a report for my boss.", "We have a meeting at {time} about this.",
    "My colleague {name} asked me to look into it.", "I'm travelling with {n} friends.",
    "It's for a school project.", "I've been working on this since {past}.",
    "We are a team of {n}.", "My manager needs this by {day}.", "I tried this {n} times already and it didn't work.",
    "I'm new here, so bear with me.", "We just moved to {city}.", "I spoke with {name} about it yesterday.",
    "There was a problem with ticket {code} last week.", "I'm writing this from {city}.",
    "It's the last thing on my list for today.",
    "Our budget is tight this year.", "I promised {name} an answer.", "The customer has been waiting for {n} days.",
    "I have {n} minutes before my next call.", "Last year we did this by hand.", "I'm at the office until {time}.",
)  # fmt: skip
_LATER = (
    "Then ",
    "Then, ",
    "After that, ",
    "Next, ",
    "Afterwards, ",
    "Once that's done, ",
    "Then please ",
    "And then ",
    "Subsequently, ",
)
_ALSO = (
    "Also, ",
    "Also ",
    "Additionally, ",
    "And ",
    "Besides that, ",
    "Oh, and ",
    "In addition, ",
    "",
    "",
    "",
    "I also want you to ",
    "Furthermore, ",
)
_LAST = ("Finally, ", "Lastly, ", "And finally ", "At the end, ")


def call_sentences(asked: PhrasedCall, rng: random.Random, *, polite: bool = True) -> Text:
    """A call in words as separate sentences."""
    body = politely(asked, rng) if polite else asked.body
    return sentences([punctuated(capital(body), asked.kind, rng), *asked.tail])


def politely(asked: PhrasedCall, rng: random.Random) -> Text:
    """An order with polite wording; anything else unchanged."""
    if asked.kind == "noun":
        return fill(rng.choice(("{x}", "{x}", "{x}, please", "{x}?")), x=asked.body)
    if asked.kind != "order":
        return asked.body
    forms = _ORDERS if rng.random() < 0.7 or _NOT_OWN.match(plain(asked.body)) else _OWN
    return fill(rng.choice(forms), x=asked.body)


def punctuated(said: Text, kind: str, rng: random.Random) -> Text:
    """The text with the right punctuation at its end."""
    if plain(said).endswith((".", "?", "!")):
        return said
    mark = "?" if kind == "question" and rng.random() < 0.93 else "" if kind == "noun" and rng.random() < 0.12 else "."
    return text(said, mark)


def sentences(parts: Sequence[Text]) -> Text:
    """Join sentences."""
    found: list[Piece] = []
    for part in parts:
        found += [Piece(" "), *part] if found and not found[-1].text.endswith((" ", "\n")) else part
    return tuple(found)


def joined(parts: Sequence[PhrasedCall], rng: random.Random, *, ordered: bool) -> Text:
    """Combine several calls into one request.

    Args:
        parts: the calls, in the order in which they are stated.
        rng: source of randomness.
        ordered: whether each continues from the one before.
    """
    short = not any(part.tail for part in parts) and sum(len(plain(part.body)) for part in parts) < 260
    draw = rng.random()
    if short and len(parts) <= 4 and draw < 0.42:
        return _in_one(parts, rng, ordered)
    if len(parts) > 2 and draw < 0.5:
        return _listed(parts, rng)
    return _in_turn(parts, rng, ordered)


def _in_one(parts: Sequence[PhrasedCall], rng: random.Random, ordered: bool) -> Text:
    """Use one sentence: "find X, book Y and tell me Z"."""
    first = politely(parts[0], rng)
    opened = bare(first)
    asks = plain(first).endswith("?") or parts[0].kind == "question"
    found: list[Piece] = list(capital(opened))
    for index, part in enumerate(parts[1:], 1):
        last = index == len(parts) - 1
        joint = (
            rng.choice((" and then ", ", then ", ", and then ") if ordered else (" and ", ", and ", " and also "))
            if last
            else ", "
        )
        found += [Piece(joint), *small(bare(part.body))]
    return text(tuple(found), "?" if asks else ".")


def _listed(parts: Sequence[PhrasedCall], rng: random.Random) -> Text:
    """Use a list with one call per line."""
    opening = rng.choice(
        (
            "Please do the following:",
            "I need a few things:",
            "Can you help me with these?",
            "To do:",
            "My requests:",
            "",
        )
    )
    numbered = rng.random() < 0.6
    lines: list[Text] = [text(opening)] if opening else []
    for index, part in enumerate(parts, 1):
        lead = f"{index}. " if numbered else "- "
        lines.append(
            text(
                lead,
                sentences(
                    [capital(bare(part.body)) if not part.tail else text(capital(bare(part.body)), "."), *part.tail]
                ),
            )
        )
    found: list[Piece] = []
    separator = "\n" if rng.random() < 0.7 else " "
    for index, line in enumerate(lines):
        found += [Piece(separator), *line] if index else line
    return tuple(found)


def _in_turn(parts: Sequence[PhrasedCall], rng: random.Random, ordered: bool) -> Text:
    """Use one sentence per call."""
    said: list[Text] = []
    plainly = rng.random() < 0.25
    for index, part in enumerate(parts):
        if index == 0:
            first = rng.random() < 0.12 and len(parts) > 2 and part.kind == "order"
            said.append(
                call_sentences(replace(part, body=text("first, ", part.body)), rng, polite=False)
                if first
                else call_sentences(part, rng)
            )
            continue
        joints = (
            _LAST if index == len(parts) - 1 and len(parts) > 2 and rng.random() < 0.5 else _LATER if ordered else _ALSO
        )
        joint = "" if plainly and not ordered else rng.choice(joints)
        said.append(_continued(part, joint, rng))
    return sentences(said)


def _continued(part: PhrasedCall, joint: str, rng: random.Random) -> Text:
    if part.kind == "order":
        body = text(joint, small(part.body)) if joint else politely(part, rng)
    elif part.kind == "noun" and joint:
        body = text(rng.choice(("I also need ", "I also want ", "also ", "and ")), small(part.body))
    elif part.kind == "need" and joint and rng.random() < 0.5 and plain(part.body).startswith("I need "):
        body = text("I also need ", _after(part.body, "I need "))
    else:
        body = (
            text(joint if not joint.endswith(("please ", "you to ")) else "Also, ", small(part.body))
            if joint
            else part.body
        )
    return sentences([punctuated(capital(body), part.kind, rng), *part.tail])


def _after(body: Text, start: str) -> Text:
    first = body[0].text
    if not first.startswith(start):
        return body
    rest = replace(body[0], text=first[len(start) :])
    return (rest, *body[1:]) if rest.text else body[1:]


def with_context(whole: Text, rng: random.Random) -> Text:
    """The request, rarely with context, a greeting or thanks."""
    parts: list[Text] = [whole]
    if rng.random() < 0.13:
        context = text(_context(rng))
        parts = [context, whole] if rng.random() < 0.7 else [whole, context]
    if rng.random() < 0.07:
        parts.append(text(rng.choice(_CLOSINGS)))
    said = sentences(parts)
    if rng.random() < 0.07:
        opening = rng.choice(_OPENINGS)
        said = text(opening, small(said) if opening.endswith((", ", ": ")) else said)
    return said


def _context(rng: random.Random) -> str:
    return rng.choice(_CONTEXTS).format(
        time=rng.choice(("10:30", "2 pm", "noon", "4 o'clock")),
        name=rng.choice(banks.FIRST),
        n=rng.choice(("two", "3", "4", "five", "12")),
        past=rng.choice(("Monday", "yesterday", "last week", "this morning")),
        day=rng.choice(("Monday", "Friday", "tomorrow", "the 15th")),
        city=rng.choice(banks.CITIES),
        code=f"{rng.choice('ABT')}-{rng.randint(100, 9999)}",
    )


def typed_in_hurry(whole: Text, rng: random.Random, lowered: frozenset[tuple[int, str]]) -> Text:
    """The request as typed in a hurry: in lower case, without punctuation, or with a typo. Values stay unchanged.

    Args:
        whole: the request.
        rng: source of randomness.
        lowered: calls and parameters whose values may be in lower case too.
    """
    draw = rng.random()
    if draw < 0.45:
        return tuple(_small_piece(piece, lowered) for piece in whole)
    if draw < 0.6:
        return _without_end(tuple(_small_piece(piece, frozenset()) for piece in whole))
    places = [i for i, piece in enumerate(whole) if not piece.marks and re.search(r"[a-z]{5,}", piece.text)]
    if not places:
        return whole
    at = rng.choice(places)
    return (*whole[:at], replace(whole[at], text=_typo(whole[at].text, rng)), *whole[at + 1 :])


def _small_piece(piece: Piece, lowered: frozenset[tuple[int, str]]) -> Piece:
    values = [mark for mark in piece.marks if mark[0] == "value"]
    if any((call, name) not in lowered for _, call, name, _ in values):
        return piece
    return replace(piece, text=piece.text.lower())


def _without_end(whole: Text) -> Text:
    if not whole or whole[-1].marks:
        return whole
    return (*whole[:-1], replace(whole[-1], text=whole[-1].text.rstrip(" .?!") or whole[-1].text[:1]))


def _typo(said: str, rng: random.Random) -> str:
    words = list(re.finditer(r"[a-z]{5,}", said))
    word = rng.choice(words)
    at = rng.randrange(word.start() + 1, word.end() - 1)
    kind = rng.random()
    if kind < 0.4:
        return said[:at] + said[at + 1] + said[at] + said[at + 2 :]
    return said[:at] + said[at + 1 :] if kind < 0.75 else said[:at] + said[at] + said[at:]


__all__ = ["and_list", "call_sentences", "joined", "politely", "sentences", "typed_in_hurry", "with_context"]
