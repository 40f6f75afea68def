"""HTTP Digest (RFC 7616): the answer to a server's challenge, computed by httpx2; nothing is sent here."""

import httpx2
from yarl import URL

from executor_svc.adapters.http.transport import Reply
from executor_svc.secret_store import Login

_CHALLENGE = "WWW-Authenticate"
_ANSWER = "Authorization"


class UnusableChallenge(Exception):
    """The server's challenge is malformed, or asks for what cannot be computed."""


class Digest:
    """A user's answers to one server's challenges. The first request goes out without one."""

    def __init__(self, login: Login) -> None:
        self._first: tuple[str, str, str] | None = None
        self._auth = httpx2.DigestAuth(login.username, login.password.get_secret_value())

    def header(self, method: str, url: URL) -> str | None:
        """The Authorization header of a request; None before there was a challenge. No two requests share one."""
        first, self._first = self._first, None
        if first is not None and first[:2] == (method, str(url)):
            return first[2]
        return next(self._auth.auth_flow(httpx2.Request(method, str(url)))).headers.get(_ANSWER)

    def challenged(self, method: str, url: URL, reply: Reply) -> bool:
        """Take the challenge of a 401; False where it holds none of Digest.

        Raises:
            UnusableChallenge: it cannot be answered.
        """
        flow = self._auth.auth_flow(httpx2.Request(method, str(url)))
        request = next(flow)
        try:
            challenges = [(_CHALLENGE, value) for value in reply.headers.getall(_CHALLENGE, ())]
            again = flow.send(httpx2.Response(reply.status, headers=challenges, request=request))
        except StopIteration:
            return False
        except (httpx2.ProtocolError, NotImplementedError, ValueError):  # whatever a hostile challenge holds
            raise UnusableChallenge from None
        self._first = (method, str(url), again.headers[_ANSWER])
        return True
