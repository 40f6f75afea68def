"""The four kinds of paging of the sandbox: page and size, offset and limit with a `Link` header, cursor, page token."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import TypeVar

from starlette.datastructures import URL

from sandbox.errors import Unprocessable

Item = TypeVar("Item")
CURSOR_PATTERN = r"^[A-Za-z0-9_\-]{1,100}$"


def count_pages(total: int, size: int) -> int:
    """Number of pages of `size` items that hold `total` items."""
    return -(-total // size)


def link_header(url: URL, limit: int, offset: int, total: int) -> str | None:
    """RFC 8288 `Link` to the neighbouring pages (`next`, `prev`), as path and query; None if there are none."""
    links = []
    if offset + limit < total:
        links.append((offset + limit, "next"))
    if offset > 0:
        links.append((max(offset - limit, 0), "prev"))

    def target(start: int) -> str:
        there = url.include_query_params(limit=limit, offset=start)
        return f"{there.path}?{there.query}"

    return ", ".join(f'<{target(start)}>; rel="{name}"' for start, name in links) or None


def slice_by_cursor(items: Sequence[Item], cursor: str | None, limit: int) -> tuple[list[Item], str | None]:
    """Items after an opaque cursor, and the cursor of the rest (None at the end).

    Raises Unprocessable for an invalid cursor.
    """
    start = 0 if cursor is None else _decode(cursor)
    end = start + limit
    return list(items[start:end]), _encode(end) if end < len(items) else None


def _encode(position: int) -> str:
    return base64.urlsafe_b64encode(f"after:{position}".encode()).decode().rstrip("=")


def _decode(cursor: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    match = re.fullmatch(r"after:([0-9]{1,9})", text)
    if match is None:
        raise Unprocessable("this cursor was not issued here")
    return int(match[1])
