"""The plan as a graph: order, cycles, stages, unused steps. It avoids recursion: plans may be 10,000 steps deep."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner_svc.compiler.findings import Findings
from services.contracts.api import Api
from services.contracts.plan import Plan, dependencies
from services.contracts.planning import DiagnosticCode, Fix


@dataclass(frozen=True, slots=True)
class Graph:
    """Stages of steps (a step's stage is one more than its deepest dependency's), and each step's dependencies."""

    stages: tuple[tuple[str, ...], ...]
    needs: Mapping[str, frozenset[str]]


def check_graph(plan: Plan, apis: Mapping[str, Api], findings: Findings) -> Graph:
    """Order the plan and report unknown steps, cycles, forward references and unused steps."""
    position = {step.id: index for index, step in enumerate(plan.steps)}
    needs = {step.id: dependencies(step) & position.keys() for step in plan.steps}
    findings.checks += sum(len(step_needs) for step_needs in needs.values())
    for step in plan.steps:
        for other in step.after:
            if other not in position:
                findings.error(DiagnosticCode.UNKNOWN_STEP, f"there is no step {other!r} to wait for", step.id, "after")
    stages = _stages(needs)
    placed = {step_id for stage in stages for step_id in stage}
    if len(placed) < len(plan.steps):
        _report_cycle({step_id: need - placed for step_id, need in needs.items() if step_id not in placed}, findings)
    for step_id in placed:
        for other in sorted(needs[step_id]):
            if position[other] > position[step_id]:
                message = f"{step_id!r} needs {other!r}, which is listed after it"
                fix = Fix(message=f"List {other!r} before {step_id!r}.")
                findings.error(DiagnosticCode.FORWARD_REFERENCE, message, step_id, fixes=[fix])
    _report_unused(plan, apis, needs, findings)
    return Graph(stages, needs)


def in_order(plan: Plan) -> Plan | None:
    """The same plan with every step after its dependencies, otherwise in its own order; None if there is a cycle."""
    position = {step.id: index for index, step in enumerate(plan.steps)}
    stages = _stages({step.id: dependencies(step) & position.keys() for step in plan.steps})
    if sum(map(len, stages)) < len(plan.steps):
        return None
    ids = [step_id for stage in stages for step_id in stage]
    return Plan(steps=tuple(plan.steps[position[step_id]] for step_id in ids), answer=plan.answer)


def _stages(needs: Mapping[str, frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Kahn's algorithm, layer by layer. Steps on a cycle, and their dependents, are in no stage."""
    followers: dict[str, list[str]] = {}
    for step_id, need in needs.items():
        for other in need:
            followers.setdefault(other, []).append(step_id)
    waiting = {step_id: len(need) for step_id, need in needs.items()}
    stages = []
    stage = [step_id for step_id, count in waiting.items() if count == 0]
    while stage:
        stages.append(tuple(stage))
        freed = []
        for step_id in stage:
            for follower in followers.get(step_id, ()):
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    freed.append(follower)
        stage = freed
    return tuple(stages)


def _report_cycle(needs: Mapping[str, frozenset[str]], findings: Findings) -> None:
    """Report one cycle: among the remaining steps, following dependencies must return to a visited step."""
    path: dict[str, None] = {}
    step_id = next(iter(needs))
    while step_id not in path:
        path[step_id] = None
        step_id = min(needs[step_id])
    ring = list(path)[list(path).index(step_id) :]
    shown = " -> ".join([*ring[:8], *(["..."] if len(ring) > 8 else []), ring[0]])
    message = f"{shown}: each of these steps waits for the next one, so none can start"
    fix = Fix(message=f"Give {ring[0]!r} a value that does not come from {ring[1 % len(ring)]!r}.")
    findings.error(DiagnosticCode.CYCLE, message, ring[0], fixes=[fix])


def _report_unused(
    plan: Plan, apis: Mapping[str, Api], needs: Mapping[str, frozenset[str]], findings: Findings
) -> None:
    if not plan.answer:
        return  # without an answer every step is unused; the missing answer is reported instead
    mutating = {step.id for step in plan.steps if step.api in apis and apis[step.api].mutating}
    used: set[str] = set()
    waiting = [output.value.step for output in plan.answer if output.value.step in needs] + list(mutating)
    while waiting:
        step_id = waiting.pop()
        if step_id not in used:
            used.add(step_id)
            waiting.extend(needs[step_id])
    for step in plan.steps:
        if step.id not in used and step.api in apis:
            fix = Fix(message=f"Remove {step.id!r}, or name its output in the answer.")
            message = f"nothing uses the output of {step.id!r}, and it changes nothing"
            findings.warning(DiagnosticCode.UNUSED_STEP, message, step.id, fixes=[fix])
