"""Streamed responses: events as lines of JSON or as server-sent events, and heartbeats while nothing happens."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Protocol

from anyio import CancelScope
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.types import Send

from services.errors import ServiceError
from services.telemetry import get_logger

HEARTBEAT_S: Final = 15.0
"""A stream sends something at least this often."""
_END: Final = object()
_log = get_logger(__name__)


class EventResponse(StreamingResponse):
    """A stream of events, with a heartbeat when there was none for 15 seconds.

    Closes the events' generator when the stream ends or the reader disconnects. The stream begins with its first event,
    however late, because an error before it can still become a problem document.

    Args:
        events: what to send.
        accepted: the request can no longer be refused, so the stream may begin with a heartbeat.
        status_code: the status of the response.

    Attributes:
        check: called before each event and each heartbeat is sent; a ServiceError that it raises ends the stream.
    """

    def __init__(self, events: AsyncGenerator[Any, None], *, accepted: bool = False, status_code: int = 200) -> None:
        self._events = events
        self._beating = _with_heartbeats(events, accepted)
        self.check: Callable[[], Awaitable[None]] | None = None
        super().__init__(self._encoded(), status_code)

    async def _checked(self) -> AsyncIterator[Any]:
        """The events, and None as a heartbeat."""
        async for event in self._beating:
            if self.check is not None:
                await self.check()
            yield event

    def _encoded(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def stream_response(self, send: Send) -> None:
        """Send the events. An error before the first event is raised, since it can still become a problem document."""
        try:
            encoded = aiter(self.body_iterator)
            self.body_iterator = _again(await anext(encoded, b""), encoded)
            await self._stream(send)
        finally:
            # A cancellation while sending does not reach the generator. Unless it is closed here, the generator and
            # the run or import inside it would stay alive until garbage collection.
            with CancelScope(shield=True):
                await self._beating.aclose()
                await self._events.aclose()

    async def _stream(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except ServiceError as error:
            # The final chunk is not sent, so the reader can tell that the stream is incomplete.
            _log.warning("stream ended early", why=error.detail)


async def _with_heartbeats(events: AsyncGenerator[Any, None], accepted: bool) -> AsyncGenerator[Any, None]:
    """The events, and None whenever there was none for 15 seconds; before the first one only if ``accepted``.

    One task runs the generator to its end, because a timeout or a group of tasks in it belongs to one task.
    """
    produced: asyncio.Queue[Any] = asyncio.Queue()

    async def produce() -> None:
        async with aclosing(events):
            async for event in events:
                produced.put_nowait(event)
                await produced.join()  # a slow reader slows the generator down

    producer = asyncio.create_task(produce())
    producer.add_done_callback(lambda _: produced.put_nowait(_END))
    begun = accepted
    try:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S if begun else None):
                    event = await produced.get()
            except TimeoutError:
                yield None
                continue
            if event is _END:
                break
            begun = True
            yield event
            produced.task_done()
    finally:
        producer.cancel()
        with CancelScope(shield=True):
            await asyncio.wait([producer])
    producer.result()


async def _again(first: Any, rest: AsyncIterator[Any]) -> AsyncIterator[Any]:
    yield first
    async for item in rest:
        yield item


class Written(Protocol):
    """Something that writes itself as JSON, such as a model."""

    def model_dump_json(self, *, ensure_ascii: bool = False) -> str:
        """Its JSON."""


class NdjsonResponse(EventResponse):
    """One JSON event per line; an empty line as a heartbeat. Bytes are lines as they are sent, with their end.

    The lines are ASCII. An API's output may contain U+2028 and U+0085, which some readers take for line ends.
    """

    media_type = "application/x-ndjson"

    def __init__(
        self,
        events: AsyncGenerator[Written | bytes, None],
        *,
        accepted: bool = False,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(events, accepted=accepted, status_code=status_code)
        self.headers.update(headers or {})

    async def _encoded(self) -> AsyncIterator[bytes]:
        async for event in self._checked():
            if event is None:
                yield b"\n"
            elif isinstance(event, bytes):
                yield event
            else:
                yield event.model_dump_json(ensure_ascii=True).encode() + b"\n"


class OfKind(Written, Protocol):
    """What happened: a model with its kind."""

    @property
    def kind(self) -> str:
        """The name of the kind."""


class Numbered(Protocol):
    """An event with the number by which a reader resumes the stream."""

    @property
    def id(self) -> int:
        """The number."""

    @property
    def event(self) -> OfKind:
        """What happened."""


class SseResponse(EventResponse):
    """Numbered server-sent events (WHATWG HTML, section 9.2); a comment as a heartbeat."""

    media_type = "text/event-stream"
    _RETRY_MS = 1_000

    def __init__(self, events: AsyncGenerator[Numbered, None], status_code: int = 200) -> None:
        super().__init__(events, accepted=True, status_code=status_code)
        # A proxy that buffers responses would delay events.
        self.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def _encoded(self) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=self._RETRY_MS)
        async for numbered in self._checked():
            if numbered is None:
                yield KEEPALIVE_COMMENT
                continue
            event = numbered.event
            data = event.model_dump_json(ensure_ascii=True)
            yield format_sse_event(id=str(numbered.id), event=event.kind, data_str=data)
