"""How a stream of lines tells an error that comes too late for a problem document as the response."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from services.contracts.problem import Problem, ProblemEvent
from services.errors import ServiceError
from services.http import problem_document

T = TypeVar("T")


async def ending_with_problem(events: AsyncGenerator[T, None]) -> AsyncGenerator[T | ProblemEvent, None]:
    """The events; an error after the first one becomes the last event. One before it can be the response."""
    begun = False
    try:
        async with aclosing(events):
            async for event in events:
                begun = True
                yield event
    except ServiceError as error:
        if not begun:
            raise
        yield ProblemEvent(problem=Problem.model_validate(problem_document(error)))
