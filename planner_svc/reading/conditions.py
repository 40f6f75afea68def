"""Conditions that a request makes: "if it is late", "unless the order has shipped"."""

import re
from typing import Final

CONDITION: Final = re.compile(
    r"(?<!\beven )(?<!\bas )(?<!\bsee )(?<!\bmind )(?<!\bknow )(?<!\btell me )"
    r"\b(?:if|unless|in\s+case|provided(?:\s+that)?)\s++"
    r"(?!(?:you|this|that|these|those|so|not)\b)"
    r"[^.,;:!?\n]{1,60}?(?:\s++(?:is|are|was|were|has|have|had|do|does|did)(?:n['\u2019]t)?|['\u2019]s"
    r"|(?<=\bhe)|(?<=\bshe)|(?<=\bit)|(?<=\bthey)"
    r"|\s++[a-z]{2,}s(?=\s+(?:less|more|over|under|above|below|at\s+least|at\s+most|not)\b))"
    r"\s++(?P<state>(?:(?!\s+(?:and|but|then)\b)[^.,;:!?\n]){1,60})",
    re.IGNORECASE,
)
"""A condition: what is compared, and the state that it must have.

Spaces are never given back: a request may be a word and thousands of them.
"""
