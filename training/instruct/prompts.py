"""The prompts for the model that generates fields, tools and requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from services.clients.chat import Message

SEEDS: Final = (
    "Weather",
    "Travel",
    "Food",
    "Finance",
    "Sports",
    "Healthcare",
    "Music",
    "Education",
    "Logistics",
    "Agriculture",
    "Law",
    "Astronomy",
)
"""Fields that are shown as examples, two at a time. They do not count as answers."""
TONES: Final = (
    "a short command",
    "a question",
    "a sentence or two that first say why it is needed",
    "a casual chat message",
    "a polite and complete sentence",
    "the note of somebody in a hurry",
)
"""The tones of requests, used in turn."""

_SYSTEM: Final = "You make data for teaching a planner to call APIs. Answer with JSON and nothing else."

_FIELDS: Final = """\
Name {count} fields of life and work in which software offers APIs, such as "{first}" and "{second}".
Fields are coarse, and no two of them overlap. A name has one to four words.{others}
Answer with a JSON list of {count} texts."""

_SUBFIELDS: Final = """\
Name {count} subfields of the field "{field}" by which its APIs can be sorted.
Subfields are fine, and no two of them overlap. A name has one to four words.{others}
Answer with a JSON list of {count} texts."""

_TOOLS: Final = """\
Make up {count} APIs of the field "{field}", subfield "{subfield}". An API is a function with parameters and responses.
An example, of the field "Weather", subfield "Temperature":
{example}
- Names of APIs, parameters and responses are made of Latin letters, digits and underscores. No two APIs do the same.
- Each parameter and each response has a "type", one of "str", "int", "float", "bool", and a "description".
- Descriptions of parameters end with examples of values: "(e.g., Lisbon, New York)".
- "required" names the parameters without which the API cannot work, and no others.
- "field" is "{field}/{subfield}".{others}
Answer with a JSON list of {count} objects of exactly this form."""

EXAMPLE_TOOL: Final = """\
{"api_name": "getTemperature", "api_description": "Tells the current temperature at a place", \
"field": "Weather/Temperature", "parameters": \
{"location": {"type": "str", "description": "The place (e.g., Lisbon, New York)"}, \
"unit": {"type": "str", "description": "The unit of the answer (e.g., Celsius, Fahrenheit)"}}, \
"required": ["location"], "responses": \
{"temperature": {"type": "float", "description": "The temperature at the place"}}}"""

_REQUEST: Final = """\
Here are APIs, each as name(parameters) -> fields of its answer | description; a parameter with "?" is optional, and a \
type that is not said is text:
{tools}

{task}
- The request is what a person would say who has never heard of APIs: no names of APIs, parameters or fields.
- The calls do all that the request asks for. Each gives all its required parameters; optional ones now and then.
- Values are concrete and made up. Every value in the calls stands in the request, letter for letter.
- {references}
- The request sounds like {tone}.{others}
Answer with one JSON object:
{{"query": "the request", "calls": [{{"name": "API", "label": "var1", "arguments": {{"parameter": "value"}}}}]}}"""

_TASKS: Final = {
    "single": "Write a request that one call of this API solves, and that call.",
    "multiple": "Choose two to four of these APIs that one person could need together. Write one request that takes "
    "them all, and a call of each.",
    "nested": "Write one request that takes all of these APIs, where a call needs what an earlier one answers, and "
    "those calls in their order.",
}
_NO_REFERENCES: Final = "No call needs what another one answers."
_REFERENCES: Final = (
    "A value that an earlier call answers is not in the request: it is written as a reference, $LABEL.FIELD$. Called "
    "in the order in which they are listed, {links}. If no sensible request needs that, answer {{}}."
)
_MAY_REFER: Final = (
    "Where a call takes what an earlier one answers, its value is a reference, $LABEL.FIELD$, for example $var1.name$."
)


def fields_prompt(count: int, examples: Sequence[str], known: Sequence[str], why: str) -> list[Message]:
    """Ask for fields that are not known yet."""
    first, second = examples
    return _messages(_FIELDS.format(count=count, first=first, second=second, others=_others(known)), why)


def subfields_prompt(count: int, field: str, known: Sequence[str], why: str) -> list[Message]:
    """Ask for subfields of a field."""
    return _messages(_SUBFIELDS.format(count=count, field=field, others=_others(known)), why)


def tools_prompt(count: int, field: str, subfield: str, known: Sequence[str], why: str) -> list[Message]:
    """Ask for tools of a subfield."""
    told = _TOOLS.format(count=count, field=field, subfield=subfield, example=EXAMPLE_TOOL, others=_others(known))
    return _messages(told, why)


def request_prompt(
    kind: str, tools: Iterable[str], links: Sequence[str], tone: str, known: Sequence[str], why: str
) -> list[Message]:
    """Ask for a request and its calls.

    Args:
        kind: ``single``, ``multiple`` or ``nested``.
        tools: their lines, as a planner sees them.
        links: for a nested request, which references can be which parameters, in words.
        tone: one of :data:`TONES`.
        known: existing requests for the same tools.
        why: the problem of the last answer, if this is a retry.
    """
    references = _NO_REFERENCES if kind == "single" else _MAY_REFER
    if links:
        references = _REFERENCES.format(links="; ".join(links))
    others = f"\n- It is unlike these: {'; '.join(known)}" if known else ""
    asked = _REQUEST.format(tools="\n".join(tools), task=_TASKS[kind], references=references, tone=tone, others=others)
    return _messages(asked, why)


def _others(known: Sequence[str]) -> str:
    return f"\nThese are there already, name others: {', '.join(known)}." if known else ""


def _messages(asked: str, why: str) -> list[Message]:
    told = f"{asked}\n\nAn earlier answer was of no use: {why}." if why else asked
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": told}]
