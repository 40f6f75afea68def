"""The wording of an API in a request: a verb and its object, from the description or the name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from planner_svc.reading.profile import Profile, Slot
from planner_svc.reading.text import singular, split_name, word_set
from training.planner.meanings import is_technical, label_of, meaning_of
from training.planner.verbs import COMPUTING, READING, SAME, SYNONYMS, VERBS

MAX_OBJECT_WORDS = 13

_LEAD = re.compile(
    r"^(?:(?:this|the|these) (?:\w+ )?(?:endpoint|api|method|operation|function|call|tool|route|action|service|request|"
    r"resource|commands?)s?(?: (?:is|are|can be) used (?:to|for)| will| allows?(?: you| users?| the user)? to"
    r"| lets (?:you|users)| enables? (?:you |users? )?to| helps? (?:you )?(?:to )?| for| to|)"
    r"|(?:allows?|enables?|lets?) (?:you |users? |the user |clients? |developers? )?(?:to )?"
    r"|use this (?:\w+ )?(?:endpoint|api|method|operation|call|function) to|used (?:to|for)|api (?:to|for))\s+",
    re.IGNORECASE,
)
"""Introductory phrases of descriptions."""
_OPERATION = re.compile(
    r"^(?:the )?[\w ]{3,40} (?:operation|api|method|endpoint) (?=\w+s\b)|^(?:GET|POST|PUT|DELETE|COUNT) for (?=\w)",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"<[^>]{1,200}>|[`*_#]{1,3}(?=\w)|(?<=\w)[`*]{1,3}|\[([^\]]{1,200})\]\([^)]{1,300}\)|\([^()]{0,200}\)|https?://\S+"
)
_END = re.compile(r"(?<=[a-z0-9)])[.!?;:](?:\s|$)|\n|\s[-\u2013\u2014]\s|\.\s")
_TAIL = re.compile(
    r"\s+(?:by|using|with|from|based on|given|via|through)\s+(?:its|their|the|a|an|his|your)?\s*"
    r"(?:unique |given |specific |provided |own )*"
    r"(?:id|ids|identifier|identifiers|name|code|key|number|slug|uuid)s?(?: number)?$",
    re.IGNORECASE,
)
_BY = re.compile(
    r"\s+(?:by|based on|using) (?!an? )(?:its |their |the )?[a-z]+(?: [a-z]+){0,2}(?:, [a-z ]+)*(?:,? (?:and|or) .*)?$"
)
_CUT = re.compile(
    r",?\s+(?:which|that (?:is|are|was|were|match|have|has|will)|whose|based on|including|as well as|so that"
    r"|in order to|if|when|where|unless|while|along with|such as|depending|specified"
    r"|provided|identified|associated)\b.*|,\s(?!.*\band\b).*",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"\b(specific|specified|given|particular|certain|provided|requested|corresponding|respective|single|desired|selected|chosen)\s+",
    re.I,
)
_PLURAL = re.compile(r"(?:[^s]s)$")
_SINGULAR = word_set(
    """
    status analysis news address series basis progress access process business gas diabetes physics news
    """
)
_OWNED = re.compile(
    r"\b(?:the |a |an |your )?(?:authenticated |current |logged[- ]in )?(?:user|customer)['\u2019]s\b|\byour\b",
    re.IGNORECASE,
)

_DETERMINERS = word_set("a an the my your all one this new multiple")
_NOUNS_TOO = word_set(
    """
    report test plan order request record review score rate design forecast estimate process use view post place
    """
)
_NOUNISH = re.compile(
    r"(?:tion|ing|ity|(?<!docu)ment|s|ness|er|or|ance|ence)$|^.{1,3}$|^(?:user|data|weather|account|current|new|all|real)$"
)
_JOINTS = (
    "(?:of|for|in|to|from|with|by|at|on|and|or|using|based|under|as|is|into|via|over|during|within|near|that|which|who)"
)
_NOT_IN_NAMES = frozenset({"id", "get", "post", "put", "list", "v", "a", "or"})
_PHRASAL = word_set("check turn switch log sign shut lock")
_NO_VERBS = word_set("all for in of is with by from to if when after on at return the a an this these that")
_VAGUE = re.compile(
    r"\s+(?:with|using|by)\s+(?:the |these |its |some |any |my )?(?:\w+ )?"
    r"(?:parameters?|settings|details|options|properties|criteria|filters?|values?|body|payload|data|query)$"
    r"|^(?:a |the )?(?:full |complete |paginated )?list of\s+|^(?:or|and|/)\s+\w+\s+"
)

Effect = Literal["read", "compute", "act"]


@dataclass(frozen=True, slots=True)
class SlotMention:
    """The place where an object mentions a parameter: "a movie" in "details about a movie"."""

    start: int
    end: int
    noun: str


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording of an API.

    Attributes:
        verb: what it does ("cancel"), in its base form.
        target: the verb's object ("an existing order").
        short: its name without the verb, in words ("order status").
        effect: whether it reads, computes, or changes something.
        mentions: the parameters that the target mentions.
        thing: the noun for a call's result or subject ("order").
    """

    verb: str
    target: str
    short: str
    effect: Effect
    mentions: dict[str, SlotMention]
    thing: str

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verb and its synonyms."""
        kin = SYNONYMS.get(SAME.get(self.verb, self.verb), ())
        return (self.verb, self.verb, *kin) if len(kin) > 1 else kin or (self.verb,)

    @property
    def creates(self) -> bool:
        """Whether it creates something, which a value can then name."""
        return SAME.get(self.verb, self.verb) in (
            "create",
            "add",
            "generate",
            "make",
            "design",
            "build",
            "organize",
            "schedule",
            "publish",
        )


def read_wordings(profile: Profile, slots: tuple[Slot, ...]) -> list[Wording]:
    """The wordings of an API: from its description, and from its name.

    Args:
        profile: the API.
        slots: the parameters that a request may state.
    """
    api = profile.api
    name = [word for word in split_name(api.name) if not word.isdigit() and len(word) < 25][:8]
    found = []
    titled = split_name(api.summary) == name and api.description  # the summary only repeats the name
    for told in ("" if titled else api.summary, api.description):
        parsed = _sentence(told, name, api.method)
        if parsed is not None:
            found.append(_wording(profile, slots, *parsed, name))
    named = _from_name(name, api.method)
    if named is not None and (not found or len(named[1].split()) <= 4):
        found.append(_wording(profile, slots, *named, name))
    return found


def _wording(profile: Profile, slots: tuple[Slot, ...], verb: str, target: str, name: list[str]) -> Wording:
    kin = SAME.get(verb, verb)
    effect: Effect = "read" if kin in READING else "compute" if kin in COMPUTING else "act"
    if profile.api.method == "DELETE" and effect != "act":
        verb, effect = "delete", "act"
    rest = name[1:] if name and base_verb(name[0]) else name
    return Wording(verb, target, " ".join(rest) or target, effect, _mentions(target, slots), _thing(target))


def base_verb(word: str) -> str | None:
    """The base form of a verb that requests begin with ("Lists", "listing" are "list"); None for another word."""
    low = word.lower().strip(",:'\"")
    forms = [low, low.removesuffix("s"), low.removesuffix("es"), low.removesuffix("ies") + "y"]
    if low.endswith("ing"):
        stem = low.removesuffix("ing")
        forms += [stem, stem + "e", stem[:-1]]
    return next((form for form in forms if form in VERBS), None)


def _sentence(told: str, name: list[str], method: str) -> tuple[str, str] | None:
    """Verb and target of a description's first sentence, shortened to the wording of a request."""
    plain = _MARKUP.sub(lambda m: m[1] or " ", told[:500])
    plain = re.sub(r"\s+", " ", plain).strip()
    first = _END.split(plain, maxsplit=1)[0].strip(" .")
    first = _OPERATION.sub("", _LEAD.sub("", first)).strip()
    words = first.split()
    if not words or any(len(word) > 30 for word in words) or not re.search(r"[a-z]{3}", first):
        return None
    verb = base_verb(words[0])
    nominal = len(words) > 1 and words[1].lower() in ("of", "for", "in", "is", "by")
    if verb is None and len(words) > 1 and words[1].lower() in _DETERMINERS and words[0].lower().isalpha():
        verb = words[0].lower() if not words[0].lower().endswith("s") else words[0].lower()[:-1]
        verb = None if verb in _NO_VERBS else verb
    if verb is None and name and words[0].lower() == name[0] and len(words) > 1 and not _NOUNISH.search(name[0]):
        verb = name[0]
    if verb is None or (nominal and verb in _NOUNS_TOO):
        verb, target = ("get" if method in ("GET", "HEAD") else ""), first
        if not verb or (
            nominal is False and words[0].lower() in ("if", "when", "note", "returns", "deprecated", "there")
        ):
            return None
        target = target if target[1:2].isupper() else target[:1].lower() + target[1:]
    else:
        target = " ".join(words[1:])
    if verb in _PHRASAL and words[1:2] and words[1].lower() in ("in", "out", "off", "on", "down"):
        verb, target = f"{verb} {words[1].lower()}", " ".join(words[2:])
    if verb == "look" and target.startswith("up "):
        verb, target = "get", target[3:]
    if verb == "search" and target.startswith("for "):
        target = target[4:]
    return (verb, shortened) if (shortened := _shortened(target)) else None


def _shortened(target: str) -> str:
    said = _OWNED.sub("my", _FILLER.sub("", target)).strip(" .,;:")
    said = _VAGUE.sub("", _TAIL.sub("", said))
    words = said.split()
    titled = [word for word in words if word[:1].isupper() and word[1:].islower()]
    if (len(words) > 1 and len(titled) >= 0.6 * len(words)) or len(words) == 1 == len(titled):
        said = " ".join(word.lower() if word in titled else word for word in words)
    said = re.sub(r",?\s+(?:sorted|ordered|filtered|in order of)\b.*", "", said)
    if len(said.split()) > 7:
        said = _CUT.sub("", said)
    if len(said.split()) > MAX_OBJECT_WORDS or re.search(r"[{}<>\[\]|=\\]", said):
        return ""
    said = re.sub(r"\ba (?=[aeio])(?!one|eu)", "an ", said)
    said = re.sub(
        r"\s+(?:identified|specified|provided|requested|and (?:tell|get|see|return|show))$", "", _BY.sub("", said)
    )
    said = re.sub(r"\b(?:up|out|of|for|in|the|a|an|and|or|to|with|by|from|on)$", "", said.strip()).strip(" .,;:")
    return _TAIL.sub("", said)


def _from_name(name: list[str], method: str) -> tuple[str, str] | None:
    if not name or not all(word.isascii() for word in name):
        return None
    verb = base_verb(name[0])
    rest = name[1:] if verb else name
    if verb is None:
        verb = "get" if method in ("GET", "HEAD") else None
    if verb is None or not rest or len(rest) > 6:
        return None
    noun = re.sub(r" (?:by|for|with|to|from) .*$", "", " ".join(rest))
    rest = noun.split()
    if not rest or set(rest) & _NOT_IN_NAMES or rest[0] in _NO_VERBS:
        return None
    creates = SAME.get(verb, verb) in ("create", "add", "book", "schedule", "design", "generate", "register")
    article = (
        ("an " if rest[0][0] in "aeio" else "a ")
        if creates and not rest[-1].endswith("s")
        else ""
        if rest[-1].endswith("s") or rest[-1] in ("information", "info", "data", "weather")
        else "the "
    )
    return verb, article + (label_of(noun) if len(rest) <= 5 else noun)


def _mentions(target: str, slots: tuple[Slot, ...]) -> dict[str, SlotMention]:
    """The places where the target mentions a parameter; each place is used once."""
    found: dict[str, SlotMention] = {}
    for slot in slots:
        meant = meaning_of(slot)
        nouns = [meant.noun, *meant.noun.split()[-1:]] if meant.noun else []
        if meant.sense in (
            "place",
            "person",
            "named",
            "text",
            "message",
            "language",
            "currency",
            "date",
            "year",
            "topic",
        ):
            nouns.append(" ".join(meant.words))
        for noun in dict.fromkeys(filter(None, nouns)):
            mention = _mention(target, noun)
            if mention and not any(mention.start < other.end and other.start < mention.end for other in found.values()):
                found[slot.name] = mention
                break
    return found


def _mention(target: str, noun: str) -> SlotMention | None:
    if noun.lower() not in target.lower():
        return None
    phrase = rf"\b(?:a|an|the|any|my|one|each|this|every)\s+(?:(?!{_JOINTS}\b)[a-z-]+\s+){{0,2}}{re.escape(noun)}\b"
    for match in reversed(list(re.finditer(phrase, target, re.IGNORECASE))):
        if not re.match(rf"\s+(?!{_JOINTS}\b)[a-z]", target[match.end() :], re.IGNORECASE):
            return SlotMention(match.start(), match.end(), re.sub(r"^\w+\s+", "", match[0]))
    bare = re.search(rf"(?:^|(?<=\s)){re.escape(noun)}$", target, re.IGNORECASE)
    if bare is not None and len(target.split()) <= 3 and not target.lower().startswith(("the ", "all ", "my ")):
        return SlotMention(bare.start(), bare.end(), noun)
    return None


def _thing(target: str) -> str:
    """The noun that the target is about: "order" of "an existing order for a customer"."""
    head = re.split(
        r"\s+(?:of|for|in|to|from|with|by|at|on|about|using|based|into|between|related|within|and|or|as)\b", target
    )[0]
    words = [w for w in re.sub(r"^(?:a|an|the|my|all|any|new|existing)\s+", "", head).split() if w.isascii()]
    words = [w for w in words if w.lower() not in ("new", "existing", "list", "all", "the")]
    if not words:
        return ""
    return " ".join([*words[:-1], singular(words[-1].lower())][-2:])


def requestable_slots(profile: Profile) -> tuple[Slot, ...]:
    """The parameters that a request may state."""
    return tuple(slot for slot in profile.slots if not is_technical(slot) and meaning_of(slot).sense != "object")


def is_plural(said: str) -> bool:
    """Whether a noun phrase is plural, judged by its first noun."""
    head = re.split(r"\s+(?:of|for|in|to|from|with|by|at|on|about|between|during)\b", said)[0].split()
    if len(head) > 1 and head[-1].lower().endswith(("ed", "found", "sold", "made", "nearest")):
        head = head[:-1]
    return bool(head) and _PLURAL.search(head[-1]) is not None and head[-1].lower() not in _SINGULAR
