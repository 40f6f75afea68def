"""Rephrases sentences as users might: other verbs, a provider's name, a value, a typo.

Nothing here depends on a catalogue. ``synthesis`` uses it to make requests from an API's own description.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from services.contracts.api import Api
from services.words import spaced

_SYNONYMS: dict[str, tuple[str, ...]] = {
    "get": ("fetch", "retrieve", "show me", "look up", "find", "give me", "read", "check", "view"),
    "list": ("show", "get all", "show me all", "find", "see", "give me", "fetch all", "browse"),
    "create": ("add", "make", "set up", "register", "start", "make a new", "generate"),
    "update": ("change", "edit", "modify", "adjust", "set", "save changes to"),
    "delete": ("remove", "get rid of", "erase", "drop", "clear"),
    "search": ("find", "look for", "query", "look up"),
    "send": ("post", "deliver", "submit", "dispatch"),
    "check": ("verify", "see", "test", "find out"),
    "cancel": ("stop", "call off", "abort", "void"),
    "upload": ("send", "attach", "put up"),
    "download": ("get", "save", "export"),
    "calculate": ("compute", "work out", "determine", "figure out"),
    "start": ("launch", "run", "begin", "trigger", "kick off"),
    "enable": ("turn on", "activate", "switch on"),
    "disable": ("turn off", "deactivate", "switch off"),
    "assign": ("give", "add", "attach", "link"),
    "book": ("reserve", "arrange", "schedule"),
    "count": ("get the number of", "tell me how many"),
}
_SAME = {
    "fetch": "get", "retrieve": "get", "return": "get", "read": "get", "describe": "get", "show": "get", "view": "get",
    "obtain": "get", "insert": "create", "add": "create", "register": "create", "post": "create", "patch": "update",
    "modify": "update", "edit": "update", "change": "update", "put": "update", "set": "update", "replace": "update",
    "remove": "delete", "destroy": "delete", "query": "search", "find": "search", "validate": "check",
    "verify": "check", "compute": "calculate", "run": "start", "launch": "start", "trigger": "start",
    "activate": "enable", "deactivate": "disable", "enumerate": "list", "generate": "create",
}  # fmt: skip
_MORE_VERBS = """
    accept acquire allow analyze apply approve archive attach authorize bind block buy call capture change clear
    clone close commit complete configure confirm connect convert copy cut deploy detach detect determine discover
    duplicate encode enroll estimate evaluate exchange execute expire export extract filter finish flag follow
    forward give grant handle identify import increment initiate install invite invoke issue join leave link load
    lock log look make manage map mark measure merge migrate monitor move notify open parse pause pay perform pin
    place play predict preview process provide provision publish pull purchase purge push rate reboot recommend
    record recover redeem refresh refund reject release reload rename render renew reopen reorder request resend
    reset resize resolve restart restore resume revoke rotate save scan schedule select share sign simulate skip
    sort split stop store submit subscribe suggest suspend swap switch sync tag take terminate test track transfer
    transform translate unassign unblock undelete unlink unlock unsubscribe upgrade use wait watch write
"""
_OTHER_VERBS = frozenset(_MORE_VERBS.split())
_WRAPPERS = (
    "{}", "{}", "{}", "{}", "please {}", "I want to {}", "I need to {}", "can you {}?", "I'd like to {}",
    "how do I {}?", "help me {}", "could you {} for me", "{} please", "we have to {}",
)  # fmt: skip
_NAMED = (
    "{q}. Use {p}.", "{q}. Use {p}.", "Using {p}, {q}", "{q} with {p}", "{q} in {p}", "{q} on {p}", "{p}: {q}",
    "{q} via the {p} API", "In my {p} account, {q}", "{q} ({p})", "{p} {q}", "{q} using {p}",
)  # fmt: skip
_JOINS = (", and then ", ". Then ", ", and ", " and ", "; ", ". ", ". After that, ")
_MARKUP = re.compile(r"<[^>]{1,200}>|[`*_#]{1,3}(?=\w)|(?<=\w)[`*]{1,3}|\[(?P<label>[^\]]{1,200})\]\([^)]{1,300}\)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z<`*])|\n+|\s#{2,}\s")
_VERSION = re.compile(r"\b(?:v\d+\w*|\d+(?: \d+)*)\b")


def sentences(text: str) -> list[str]:
    """The sentences of a description of suitable length, without markup and the full stop."""
    plain = _MARKUP.sub(lambda match: match["label"] or " ", text[:1_000])
    parts = (re.sub(r"\s+", " ", part).strip(" .") for part in _SENTENCE.split(plain))
    return [part for part in parts if 2 <= len(part.split()) <= 40]


def rephrase(sentence: str, rng: random.Random) -> str:
    """A sentence such as "Lists all clusters" as a request: "show me all clusters", "I want to list all clusters"."""
    if rng.random() < 0.25:
        return sentence
    said = reword(sentence, rng)
    if _verb(sentence.partition(" ")[0]):
        said = rng.choice(_WRAPPERS).format(said)
    return said[0].upper() + said[1:] if rng.random() < 0.5 else said


def reword(sentence: str, rng: random.Random) -> str:
    """The sentence as an imperative, perhaps with another verb: "show all clusters", "list all clusters"."""
    first, _, rest = sentence.partition(" ")
    verb = _verb(first)
    if verb is None:
        opening = rng.choice(("", "get ", "show me ", "find ", "what is ", "I need ", "tell me "))
        return opening + _lower(sentence)
    words = [verb] if rng.random() < 0.4 else _SYNONYMS.get(_SAME.get(verb, verb), (verb,))
    return f"{rng.choice(words)} {rest}".strip()


def with_value(request: str, api: Api, rng: random.Random) -> str:
    """The request with a value for one of the API's parameters."""
    parameters = [one for one in api.parameters if one.required] or list(api.parameters[:3])
    if not parameters:
        return request
    name = spaced(rng.choice(parameters).name).lower()
    number = str(rng.randint(1, 99_999))
    value = rng.choice((number, number, f"{rng.choice('ABKXR')}{number}", '"Summer 2026"', "Lisbon", "2026-11-21"))
    return f"{request.rstrip('?.')} {rng.choice(('with', 'for', 'where', 'by'))} {name} {value}"


def name_provider(request: str, provider: str, rng: random.Random) -> str:
    """The request with its provider named in one of the usual ways; empty if the provider has no name.

    ``provider`` is as in the catalogue: a word, a domain, or ``googleapis.com~gmail``.
    """
    names = provider_names(provider)
    if not names:
        return ""
    body = request.rstrip(". ")
    template = rng.choice(_NAMED)
    return template.format(q=body if template.startswith("{q}") else _lower(body), p=rng.choice(names))


def provider_names(provider: str) -> list[str]:
    """Names that users have for a provider: ``twilio.com~twilio_verify_v2`` is "twilio", "Twilio", "twilio verify"."""
    domain, _, service = provider.partition("~")
    vendor = domain.split(".")[0].strip("-_ ")
    if not vendor:
        return []
    names = [vendor, vendor, vendor.capitalize(), vendor.capitalize()]
    if said := re.sub(r"\s+", " ", _VERSION.sub("", spaced(service))).strip():
        names += [said, said if vendor in said.lower() else f"{vendor.capitalize()} {said}"]
    return names


def slip(request: str, rng: random.Random) -> str:
    """The request as typed in a hurry: in lower case, or with two letters swapped, one lost or doubled."""
    if rng.random() < 0.6:
        return request.lower()
    words = request.split()
    long = [index for index, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    if not long:
        return request
    chosen = rng.choice(long)
    word = words[chosen]
    at = rng.randrange(1, len(word) - 2)
    words[chosen] = rng.choice(
        (
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
        )
    )
    return " ".join(words)


def join(parts: Sequence[str], rng: random.Random) -> str:
    """Combine several requests, as a list ("a, b, and c") or one after the other."""
    bare = [part.rstrip("?. ") for part in parts]
    if len(bare) > 2 and rng.random() < 0.5:
        return f"{bare[0]}, {', '.join(map(_lower, bare[1:-1]))}, and {_lower(bare[-1])}."
    said = bare[0]
    for part in bare[1:]:
        link = rng.choice(_JOINS)
        said += link + (part if link == ". " else _lower(part))
    return said


def _verb(word: str) -> str | None:
    """The base form of a verb ("Lists" is "list") that requests begin with; None for other words."""
    lower = word.lower().strip(",:")
    for base in (lower, lower.removesuffix("s"), lower.removesuffix("es"), f"{lower.removesuffix('ies')}y"):
        if base in _SYNONYMS or base in _SAME or base in _OTHER_VERBS:
            return base
    return None


def _lower(text: str) -> str:
    """The text with a small first letter, unless the first word is an abbreviation or a proper name."""
    first = text.split(" ", 1)[0]
    return text if first[1:] != first[1:].lower() or first == "I" else text[:1].lower() + text[1:]
