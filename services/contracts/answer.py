"""The answer to a request: values, and words around them."""

from pydantic import Field, JsonValue

from services.contracts.base import Contract
from services.contracts.outcome import StoredValue


class AnswerValue(Contract):
    """One value that answers the request, and where it came from."""

    name: str
    value: JsonValue
    step: str
    path: tuple[str | int, ...] = ()
    stored: StoredValue | None = Field(default=None, description="Set if `value` is a preview of a large value.")


class Answer(Contract):
    """The answer: values with their native JSON types, a readable rendering of them, and where there is one a sentence.

    The sentence's words are a language model's, which saw no value; the values are in it as the calls answered them.
    """

    values: tuple[AnswerValue, ...] = ()
    text: str = ""
    sentence: str | None = None
