"""Checks that a model's server gives tokens: ``python probe.py http://127.0.0.1:8100 nestor-planner``.

It requests one token, because a server that hangs still answers ``/health``. It uses the standard library only, because
it is also the health check of containers without the rest of Nestor. If the server needs a key, it comes from
``NESTOR_LLM_API_KEY`` or ``VLLM_API_KEY``.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from urllib.parse import urlsplit

_MAX_ANSWER_BYTES = 1_000_000


def gives_token(url: str, model: str, api_key: str | None = None, timeout_s: float = 10.0) -> str | None:
    """Request one token. Returns None if it came, else a description of the problem.

    Args:
        url: the server's base URL, without ``/v1``.
        model: the server's name for the model.
        api_key: bearer token, if the server needs one.
        timeout_s: socket timeout: longest time without data.
    """
    parts = urlsplit(url)
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0}
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {api_key}"} if api_key else {})
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read(_MAX_ANSWER_BYTES)
        if response.status != http.client.OK:
            return f"it answered with status {response.status}"
        tokens = json.loads(text)["usage"]["completion_tokens"]
        return None if tokens >= 1 else "it answered without a token"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error or type(error).__name__}"
    except (ValueError, LookupError, TypeError):
        return "it answered with something else than a completion"
    finally:
        connection.close()


if __name__ == "__main__":
    key = os.environ.get("NESTOR_LLM_API_KEY") or os.environ.get("VLLM_API_KEY")
    problem = gives_token(sys.argv[1], sys.argv[2], key)
    sys.exit(problem and f"{sys.argv[1]}: {problem}")
