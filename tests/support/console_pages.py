"""Requests to the console like a browser's: sessions, form tokens, forms. Also values that pages must escape."""

import re
from typing import Final

import httpx2

from gateway.console.session import COOKIE
from tests.support.gateways import Gateway

HOSTILE: Final = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe'

ESCAPED: Final = "&lt;script&gt;alert(1)&lt;/script&gt;"
PRINCIPALS: Final = (
    {"name": "shop", "tenant": "red", "token": "red-token-1"},
    {"name": "rival", "tenant": "blue", "token": "blue-token-1"},
)


async def get(gateway: Gateway, path: str, cookie: str = "") -> httpx2.Response:
    """Get a page. The request carries only this session's cookie."""
    gateway.http.cookies.clear()  # the session comes only from the header
    return await gateway.http.get(f"/console/{path}", headers={"Cookie": cookie} if cookie else {})


async def post(gateway: Gateway, path: str, cookie: str, **fields: str) -> httpx2.Response:
    """Send a form and return the response. The request carries only this session's cookie."""
    gateway.http.cookies.clear()
    return await gateway.http.post(f"/console/{path}", headers={"Cookie": cookie}, data=fields)


def cookie_of(response: httpx2.Response) -> str:
    """The session cookie that a response sets."""
    found = re.search(rf"{COOKIE}=[^;]+", response.headers["set-cookie"])
    assert found is not None
    return found[0]


def csrf_of(page: httpx2.Response) -> str:
    """The CSRF token of a page's forms."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]


async def visit(gateway: Gateway, path: str = "playground") -> tuple[str, str]:
    """Open a page without login. Returns the cookie and the form token."""
    page = await get(gateway, path)
    return cookie_of(page), csrf_of(page)


async def log_in(gateway: Gateway, token: str, screen: str = "ops") -> tuple[str, str]:
    """Log in and go to that screen. Returns the cookie and the form token."""
    answer = await gateway.http.post("/console/login", data={"token": token, "next": f"/console/{screen}"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/console/{screen}")
    cookie = cookie_of(answer)
    return cookie, csrf_of(await get(gateway, "playground", cookie))


def hidden(page: str, name: str) -> str:
    """The value of a hidden field of a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, name
    return found[1]
