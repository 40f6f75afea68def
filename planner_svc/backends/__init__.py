"""Planner backends: each turns a request with candidates and demos into a draft of a plan."""

from planner_svc.backends.base import PlannerBackend
from services.compute import ComputePool
from services.encoder import PLANNER_MODEL, model_directory


def load_backends(pool: ComputePool, model: str = PLANNER_MODEL) -> dict[str, PlannerBackend]:
    """The backends that ship, by name.

    Args:
        pool: where drafts are computed.
        model: the compact planner's network: a shipped one by name, or a directory.

    Raises:
        EncoderError: the network cannot be loaded.
        CalibrationError: its calibration cannot be loaded.
        JudgeError: its second stage cannot be loaded.
    """
    from planner_svc.backends.compact import CompactBackend
    from planner_svc.backends.compact.confidence import Calibration
    from planner_svc.backends.compact.reader import Reader
    from planner_svc.backends.demonstrated import DemonstratedBackend

    directory = model_directory(model)
    reader, calibration = Reader(directory), Calibration.load(directory)
    backends: list[PlannerBackend] = [
        CompactBackend(reader, calibration, pool),
        DemonstratedBackend(pool),
    ]
    return {backend.name: backend for backend in backends}
