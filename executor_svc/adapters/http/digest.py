"""HTTP Digest (RFC 7616): computes the answer to a server's challenge with httpx2. Sends nothing."""

import httpx2
from yarl import URL

from executor_svc.adapters.http.transport import Reply
from executor_svc.secret_store import Login

_CHALLENGE = "WWW-Authenticate"
_ANSWER = "Authorization"


class UnusableChallenge(Exception):
    """The server's challenge is malformed, or needs something unsupported."""


class Digest:
    """A user's answers to one server's challenges. The first request has no answer."""

    def __init__(self, login: Login) -> None:
        self._first: tuple[str, str, str] | None = None
        self._auth = httpx2.DigestAuth(login.username, login.password.get_secret_value())

    def header(self, method: str, url: URL) -> str | None:
        """The Authorization header of a request; None before the first challenge. Each request gets its own."""
        first, self._first = self._first, None
        if first is not None and first[:2] == (method, str(url)):
            return first[2]
        return next(self._auth.auth_flow(httpx2.Request(method, str(url)))).headers.get(_ANSWER)

    def challenged(self, method: str, url: URL, reply: Reply) -> bool:
        """Store the challenge of a 401. Returns False if it holds no Digest challenge.

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
