"""A separate process that makes one call to a hostile server and prints the growth of its memory, in bytes.

``python -m tests.hostile.memory_probe URL MAX_RESPONSE_BYTES``
"""

import asyncio
import json
import resource
import sys

from executor_svc.adapters.http import open_http_adapter
from executor_svc.models import Call
from executor_svc.secret_store import SecretStore
from executor_svc.settings import ExecutorSettings
from tests.support.executing import api


def peak_bytes() -> int:
    """This process's peak resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(url: str, max_response_bytes: int) -> None:
    """Call a harmless page first, so that what every call needs is loaded; then call the hostile server."""
    settings = ExecutorSettings(allowed_private_hosts=("127.0.0.1",), max_response_bytes=max_response_bytes)
    async with open_http_adapter(settings, SecretStore.load(None, None)) as adapter:
        deadline = asyncio.get_running_loop().time() + 6
        await adapter.call(Call(api(url, "/harmless"), {}, "run/step", deadline))
        before = peak_bytes()
        result = await adapter.call(Call(api(url, "/bomb"), {}, "run/step", deadline))
        outcome = result.outcome.model_dump(mode="json")
        print(json.dumps({"grown": peak_bytes() - before, "outcome": {**outcome, "detail": None}}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
