"""Reasons for dropping something that a model wrote."""

from __future__ import annotations

from typing import Final, Literal

Reason = Literal[
    "form",
    "cut",
    "late",
    "refused",
    "name",
    "size",
    "field",
    "type",
    "required",
    "duplicate",
    "declined",
    "request",
    "calls",
    "unknown tool",
    "unknown parameter",
    "missing parameter",
    "value type",
    "value not said",
    "reference",
]
MEANINGS: Final[dict[Reason, str]] = {
    "form": "the answer was not JSON of the form that was asked for",
    "cut": "the answer was too long and broke off",
    "late": "the answer was not complete in time",
    "refused": "the server refused the request",
    "name": "a name was not of the form that was asked for",
    "size": "it had too many parameters, or texts that were too long",
    "field": "the tool was of another field",
    "type": "a type was none of those that were listed",
    "required": "`required` named what is no parameter",
    "duplicate": "it was the same as one that is there already, or nearly",
    "declined": "no request was written",
    "request": "the request was too short, too long, or named a tool",
    "calls": "it did not call what was to be called",
    "unknown tool": "it called a tool that was not listed",
    "unknown parameter": "it gave a parameter that the tool does not take",
    "missing parameter": "it left out a required parameter",
    "value type": "a value was not of its parameter's type",
    "value not said": "the request did not say a value that a call gives",
    "reference": "a reference did not lead to a fitting field of an earlier call",
}
"""Each reason in words, for retry prompts and for readers of the counts."""


class Refusal(ValueError):
    """Something that a model wrote is dropped.

    Attributes:
        reason: why it is dropped.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(MEANINGS[reason])
        self.reason: Reason = reason
