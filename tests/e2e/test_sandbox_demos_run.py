"""The shipped demos run against the sandbox and give the values that they state."""

from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from deploy.onebox import sandbox_access, shipped_demos
from deploy.sockets import address, listen, serving
from executor_svc.main import create_app as create_executor
from executor_svc.settings import ExecutorSettings
from planner_svc.compile import compile_plan
from retriever_svc.importers import import_document
from sandbox.main import create_app as create_sandbox
from services.clients.base import open_http
from services.clients.executor import ExecutorClient
from services.clients.transport import InProcessTransport
from services.contracts.execution import ExecuteRequest, ExecutionFinished
from services.contracts.planning import Decision, Policy


async def test_every_demo_runs(subtests: pytest.Subtests, tmp_path: Path) -> None:
    bound = listen("127.0.0.1", 0)
    host = address(bound)
    access = sandbox_access(host)
    settings = ExecutorSettings(
        secrets=SecretStr(access.secrets),
        allowed_private_hosts=(host,),
        database_url=f"sqlite+aiosqlite:///{tmp_path}/executor.db",
    )
    executor = create_executor(settings)
    with serving(create_sandbox(access.settings), bound=bound) as url:
        imported = import_document(httpx2.get(f"{url}/openapi.json", timeout=30).text, provider="sandbox")
        apis = {api.id: api for api in imported.apis}
        async with (
            executor.router.lifespan_context(executor),
            open_http("http://e", InProcessTransport(executor)) as http,
        ):
            client = ExecutorClient(http)
            names = (await client.credentials("default")).secrets
            for number, demo in enumerate(shipped_demos()):
                with subtests.test(demo.query):
                    used = [apis[api] for api in demo.apis]
                    compiled = compile_plan(demo.plan, used, Policy(mutating=Decision.ALLOW), names).compiled
                    assert compiled is not None
                    request = ExecuteRequest(run_id=f"demo-{number}", compiled=compiled, approved=compiled.plan.id)
                    *_, last = [event async for event in client.execute(request)]
                    assert isinstance(last, ExecutionFinished)
                    assert last.status == "succeeded", last.records
                    assert [value.name for value in last.answer] == [output.name for output in demo.plan.answer]
                    assert all(value.value not in (None, [], {}) for value in last.answer), last.answer
