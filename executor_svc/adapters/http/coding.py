"""Content codings (RFC 9110, section 8.4.1). Decodes in bounded pieces: an answer may expand a thousandfold.

It may also hold nothing: blocks without content can follow each other without end, and each takes a while to decode. So
coded data may not be much longer than what it holds; honest coders add less than a hundredth.
"""

import zlib
from collections.abc import Iterator
from typing import Final

ACCEPTED: Final = "gzip, deflate"
"""The codings that requests accept. An answer in any other coding is refused."""
_MAX_PIECE: Final = 256 * 1024
_SLICE: Final = 16 * 1024
_MAX_ADDED: Final = 64 * 1024
_MAX_MEMBERS: Final = 1_000
_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's `wbits` for RFC 1952, RFC 1950 and RFC 1951
_FORMATS: Final = {"": None, "identity": None, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class Undecodable(ValueError):
    """The coding was not asked for, or the data is not in this coding. The message says which."""


class Decoder:
    """Decodes one answer, whose Content-Encoding is ``coding``.

    Raises:
        Undecodable: the coding is not one of :data:`ACCEPTED`, or several codings were applied.
    """

    def __init__(self, coding: str) -> None:
        self._name = coding.strip().lower()
        if self._name not in _FORMATS:
            raise Undecodable(f"the answer has an encoding that was not requested: {coding}")
        format_ = _FORMATS[self._name]
        self._stream = None if format_ is None else zlib.decompressobj(format_)
        self._members, self._begun = 1, False
        self._added = 0  # bytes of coded data, less those decoded

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content in ``data``, in pieces of at most 256 KiB, each made when it is asked for.

        Raises:
            Undecodable: the data is not in this coding, continues after the end of the coded data, or is 64 KiB longer
                than its content.
        """
        if self._stream is None:
            yield data
            return
        # Many servers send "deflate" without the zlib wrapper that the RFC requires; browsers accept both.
        if not self._begun and self._name == "deflate" and data and data[0] & 0x0F != 8:
            self._stream = zlib.decompressobj(_RAW)
        self._begun = self._begun or bool(data)
        for start in range(0, len(data), _SLICE):
            coded = data[start : start + _SLICE]
            self._added += len(coded)
            for piece in self._decode(coded):
                self._added -= len(piece)
                yield piece
            if self._added > _MAX_ADDED:
                raise Undecodable(f"the answer is much longer than the content of its {self._name} data")

    def _decode(self, data: bytes) -> Iterator[bytes]:
        assert self._stream is not None
        while data:
            if self._stream.eof:
                self._stream = self._next_member()
            try:
                yield self._stream.decompress(data, _MAX_PIECE)
            except zlib.error:
                raise Undecodable(f"the answer declares {self._name}, but is not valid {self._name}") from None
            data = self._stream.unconsumed_tail or self._stream.unused_data

    def end(self) -> bytes:
        """What is left at the end of the data: a few kilobytes at most.

        Raises:
            Undecodable: the data ended early.
        """
        if self._stream is None or not self._begun:
            return b""
        rest = self._stream.flush()
        if not self._stream.eof:
            raise Undecodable("the answer is incomplete")
        return rest

    def _next_member(self) -> "zlib._Decompress":
        """A decoder for the next member: a gzip file may hold several (RFC 1952, section 2.2)."""
        self._members += 1
        if self._name == "deflate" or self._members > _MAX_MEMBERS:
            raise Undecodable(f"the answer has more bytes after the end of its {self._name} data")
        return zlib.decompressobj(_GZIP)
