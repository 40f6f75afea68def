"""The answer to a request: values, and a text with them."""

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
    partial: bool = Field(
        default=False,
        description="It comes from a list that was not read to its end, directly or through other steps.",
    )


class Answer(Contract):
    """The answer: values with their native JSON types, a readable rendering of them, and optionally a sentence.

    A language model writes the words of the sentence without seeing the values, which are then filled in unchanged.
    """

    values: tuple[AnswerValue, ...] = ()
    text: str = ""
    sentence: str | None = None

    @property
    def partial(self) -> bool:
        """Whether a value may lack items, since a list was not read to its end."""
        return any(value.partial for value in self.values)
