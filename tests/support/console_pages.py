"""The console as a browser asks for it: sessions, form tokens, forms; values that no page may take for markup."""

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
    """A page, asked for with this session alone."""
    gateway.http.cookies.clear()  # each request says by itself whose it is
    return await gateway.http.get(f"/console/{path}", headers={"Cookie": cookie} if cookie else {})


async def post(gateway: Gateway, path: str, cookie: str, **fields: str) -> httpx2.Response:
    """What a form is answered with, sent with this session alone."""
    gateway.http.cookies.clear()
    return await gateway.http.post(f"/console/{path}", headers={"Cookie": cookie}, data=fields)


def cookie_of(response: httpx2.Response) -> str:
    """The session that an answer sets."""
    found = re.search(rf"{COOKIE}=[^;]+", response.headers["set-cookie"])
    assert found is not None
    return found[0]


def csrf_of(page: httpx2.Response) -> str:
    """The token of a page's forms."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]


async def visit(gateway: Gateway, path: str = "playground") -> tuple[str, str]:
    """The cookie and the form token of somebody who needs no login."""
    page = await get(gateway, path)
    return cookie_of(page), csrf_of(page)


async def log_in(gateway: Gateway, token: str, screen: str = "ops") -> tuple[str, str]:
    """The cookie and the form token of somebody who logged in, and is led to that screen."""
    answer = await gateway.http.post("/console/login", data={"token": token, "next": f"/console/{screen}"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/console/{screen}")
    cookie = cookie_of(answer)
    return cookie, csrf_of(await get(gateway, "playground", cookie))


def hidden(page: str, name: str) -> str:
    """The value of a hidden field of a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, name
    return found[1]
