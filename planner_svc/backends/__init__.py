"""Planner backends: each turns a request with candidates and demos into a draft of a plan."""

from planner_svc.backends.base import PlannerBackend
from services.compute import ComputePool
from services.encoder import Encoder


def load_backends(encoder: Encoder, pool: ComputePool) -> dict[str, PlannerBackend]:
    """The backends that ship, by name. Computation goes through ``pool``."""
    from planner_svc.backends.compact import CompactBackend

    backends: list[PlannerBackend] = [CompactBackend(encoder, pool)]
    return {backend.name: backend for backend in backends}
