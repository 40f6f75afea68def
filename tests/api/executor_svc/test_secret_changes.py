"""The route of the journal of secrets."""

import json
from pathlib import Path
from typing import Any

import pytest

from executor_svc.secret_file import change_file
from services.errors import ServiceError
from tests.api.executor_svc.conftest import Starter

CRM: dict[str, Any] = {"value": "canary-one", "hosts": ["api.crm.example"], "in": "header", "name": "X-Key"}


async def test_the_first_question_after_a_change_tells_it(started: Starter, tmp_path: Path) -> None:
    file = tmp_path / "executor.json"
    file.write_text(json.dumps({"crm.key": CRM}))
    executor = await started({"a.key": CRM}, secrets_file=file, proof_key="p" * 40)
    first = await executor.secret_changes()
    assert [(one.seq, one.change, one.secret) for one in first.entries] == [
        (1, "added", "a.key"),
        (2, "added", "crm.key"),
    ]
    change_file(file, {"crm.key": CRM | {"value": "canary-two"}})
    later = await executor.secret_changes(first.newest)
    assert [(one.seq, one.change, one.secret) for one in later.entries] == [(3, "changed", "crm.key")]
    assert later.newest == 3
    assert "canary" not in first.model_dump_json() + later.model_dump_json()


@pytest.mark.parametrize("after", ["-1", "x", "9" * 30])
async def test_a_number_that_is_none_is_refused(started: Starter, after: str) -> None:
    executor = await started()
    with pytest.raises(ServiceError) as refused:
        await executor.secret_changes(after)
    assert refused.value.status == 422
