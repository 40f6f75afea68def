"""The device that a run trains on."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Final

import torch

_ROWS: Final = 2_048
_WIDTH: Final = 384
_TIMES: Final = 5


class DeviceError(RuntimeError):
    """torch cannot use the requested device."""


def choose_device(wanted: str) -> str:
    """``cpu`` or ``cuda``; ``auto`` selects a GPU if there is one.

    Raises:
        DeviceError: there is no such device.
    """
    if wanted not in ("auto", "cpu", "cuda"):
        raise DeviceError(f"there is no device {wanted!r}: auto, cpu or cuda")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise DeviceError("torch finds no GPU here")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def use_all_processors() -> None:
    """Let torch use all processors in this thread: FAISS, called before it, sets the number of threads to one.

    ``OMP_NUM_THREADS`` limits them, for machines that others work on too.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(int(wanted) if wanted.isdecimal() and int(wanted) else os.cpu_count() or 1)


def feeders(device: torch.device) -> int:
    """Processes that prepare batches: a GPU would wait for one, while a CPU has enough to do."""
    return max(0, (os.cpu_count() or 1) - 2) if device.type == "cuda" else 0


@cache
def faster_in_bfloat16(device: str) -> bool:
    """Whether matrix products are faster in bfloat16 than in float32. Takes about 50 ms on a CPU.

    CPUs with AMX tiles are several times faster with it. Some that only have its instructions are half as fast. Only a
    measurement shows which is the case.
    """
    if device != "cpu":
        return bool(torch.cuda.is_bf16_supported())
    return _product_s(torch.bfloat16) < _product_s(torch.float32)


def _product_s(kind: torch.dtype) -> float:
    """Shortest time of a product in seconds."""
    left, right = torch.ones(_ROWS, _WIDTH, dtype=kind), torch.ones(_WIDTH, 4 * _WIDTH, dtype=kind)
    took = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        torch.mm(left, right)
        took.append(time.perf_counter() - started)
    return min(took)
