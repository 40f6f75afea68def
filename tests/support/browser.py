"""A real browser for tests: Debian's Chromium, driven over its DevTools protocol."""

import asyncio
import base64
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
PATIENCE_S = 60


def find_chromium() -> str | None:
    """Return the browser that NESTOR_TEST_CHROMIUM names or that is installed; None if there is none."""
    return os.environ.get("NESTOR_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A browser tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self._socket, self._session = socket, session
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        """Exceptions of the page's scripts, and what its content security policy blocked."""

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "sessionId": self._session, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await self._socket.receive_json()
                self._note(message)
                if message.get("id") == number:
                    assert "error" not in message, message["error"]
                    result: dict[str, Any] = message["result"]
                    return result

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(message["params"]["exceptionDetails"]))
        entry = message.get("params", {}).get("entry", {}) if message.get("method") == "Log.entryAdded" else {}
        if entry.get("level") == "error" and entry.get("source") in ("security", "javascript"):
            self.errors.append(entry["text"])

    async def evaluate(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        asked = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in asked, asked["exceptionDetails"]
        return asked["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true in the page. The page may change meanwhile."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    if await self.evaluate(f"Boolean({script})"):
                        return
                except AssertionError:
                    pass  # the page is changing
                await asyncio.sleep(0.05)

    async def open(self, url: str) -> None:
        """Go to an address and wait until the page is loaded."""
        await self.evaluate("document.documentElement.dataset.old = 1")
        await self.send("Page.navigate", url=url)
        await self.until("!document.documentElement.dataset.old && document.readyState === 'complete'")

    async def type(self, text: str) -> None:
        """Enter a text at the cursor."""
        await self.send("Input.insertText", text=text)

    async def press(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key. Modifiers: 1 Alt, 2 Ctrl, 4 Meta, 8 Shift."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 and not modifiers & 7 else "")
        down = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        await self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **down)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **down)

    async def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, motion: bool = False) -> None:
        """Set the window's size, and the user's preferences for dark mode and motion."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme, still])

    async def shoot(self, file: Path) -> None:
        """Save a screenshot. The file's suffix chooses the format: `.png` or `.webp`."""
        shot = await self.send("Page.captureScreenshot", format=file.suffix[1:])
        await asyncio.to_thread(file.write_bytes, base64.b64decode(shot["data"]))


@asynccontextmanager
async def open_browser(chromium: str, folder: Path) -> AsyncIterator[Page]:
    """Start a browser with one page."""
    arguments = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0")
    process = await asyncio.create_subprocess_exec(
        chromium, *arguments, f"--user-data-dir={folder}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_S):
            url = await _address(process)
        async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as socket:
            yield await _page(socket)
    finally:
        process.kill()
        await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode(errors="replace"):
        if "DevTools listening on " in line:
            return line.partition("listening on ")[2].strip()
    raise RuntimeError("the browser does not start")


async def _page(socket: aiohttp.ClientWebSocketResponse) -> Page:
    browser = Page(socket, "")

    async def ask(method: str, **params: Any) -> dict[str, Any]:
        await socket.send_json({"id": 0, "method": method, "params": params})
        while (message := await socket.receive_json()).get("id") != 0:
            browser._note(message)
        result: dict[str, Any] = message["result"]
        return result

    target = await ask("Target.createTarget", url="about:blank")
    attached = await ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    page = Page(socket, attached["sessionId"])
    for domain in ("Page", "Runtime", "Log"):
        await page.send(f"{domain}.enable")
    await page.look()
    return page
