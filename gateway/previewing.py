"""What a plan that is given, or a rerun, would be, before it is one: proved and ruled on, but neither kept nor sent."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pydantic import JsonValue

from gateway.approval import prove, prove_again
from gateway.peers import Peers
from gateway.principals import Principal
from gateway.rerunning import Rerun, rerun_of
from gateway.storage import RunStore
from services.codecs import nestful
from services.codecs.text import CodecError, has_more_values
from services.contracts.plan import Plan, step_references
from services.contracts.planning import CompiledPlan, CompileResponse, Decision, Policy
from services.contracts.rerun import RerunRequest
from services.contracts.run import Run
from services.errors import ValidationFailed

_MAX_GIVEN_VALUES: Final = 5_000
"""Values of JSON in a plan that is given: each of its references is proved by itself, which takes time."""
_MAX_CHOSEN: Final = 50
"""Different items in it that are chosen by words: each time all words of a list are looked through."""

PolicyOf = Callable[[str, Decision], Policy]
"""The rules for a tenant and what its request says of calls that may change something."""


class Previews:
    """Proves plans for whoever wants to look at them first.

    Args:
        peers: who proves.
        store: the runs that are run again.
        policy: gives the rules.
        max_bytes: how large the JSON of a rerun's plan may become.
    """

    def __init__(self, peers: Peers, store: RunStore, policy: PolicyOf, max_bytes: int) -> None:
        self._peers, self._store, self._policy, self._max_bytes = peers, store, policy, max_bytes

    async def rerun(self, run_id: str, request: RerunRequest, principal: Principal) -> tuple[Run, Rerun, CompiledPlan]:
        """The earlier run, how it would be run again, and the proof of that.

        Raises:
            NotFound: no such run.
            Conflict: it is under way, or a step that is not made again has no value that can stand.
            ValidationFailed: the plan does not hold with these inputs and the APIs as they are now, or they hold too
                many values.
        """
        if has_more_values([*request.inputs.values()], _MAX_GIVEN_VALUES):
            raise ValidationFailed(f"The inputs hold more than {_MAX_GIVEN_VALUES} values.")
        earlier = await self._store.get(run_id, principal.tenant)
        again = await rerun_of(earlier, request, self._peers.executor.value, self._max_bytes)
        policy = self._policy(principal.tenant, request.options.mutations)
        return earlier, again, await prove_again(self._peers, again.plan, policy)

    async def plan(self, plan: Plan, mutations: Decision, principal: Principal) -> CompileResponse:
        """What the compiler says of a plan as it is: its proof, or its findings step by step."""
        return await prove(self._peers, plan, self._policy(principal.tenant, mutations))


async def plan_of(calls: Sequence[JsonValue]) -> Plan:
    """The plan that a list of calls is. Raises ValidationFailed where it is none, or holds too much."""
    given = list(calls)
    if has_more_values(given, _MAX_GIVEN_VALUES):
        raise ValidationFailed(f"The calls hold more than {_MAX_GIVEN_VALUES} values.")
    try:
        plan = await asyncio.to_thread(partial(nestful.decode, given, matches=True))  # others are served meanwhile
    except CodecError as error:
        raise ValidationFailed(f"The calls are no plan: {error}.") from error
    values = (*(one for step in plan.steps for one in step_references(step)), *(one.value for one in plan.answer))
    if len({one for one in values if one.match is not None}) > _MAX_CHOSEN:
        raise ValidationFailed(f"The calls choose more than {_MAX_CHOSEN} items by words.")
    return plan
