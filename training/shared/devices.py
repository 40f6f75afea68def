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
    """torch cannot use the device that was asked for."""


def choose_device(wanted: str) -> str:
    """``cpu`` or ``cuda``; ``auto`` is a GPU where there is one.

    Raises:
        DeviceError: there is no such device.
    """
    if wanted not in ("auto", "cpu", "cuda"):
        raise DeviceError(f"there is no device {wanted!r}: auto, cpu or cuda")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise DeviceError("torch finds no GPU here")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def use_all_processors() -> None:
    """Have this thread's products computed on all of them: FAISS, asked for candidates before, leaves it one."""
    torch.set_num_threads(os.cpu_count() or 1)


@cache
def faster_in_bfloat16(device: str) -> bool:
    """Whether matrix products take less time in bfloat16 than in float32. Takes some 50 ms on a processor.

    Processors with tiles for it (AMX) are several times faster with it; some that merely have its instructions are half
    as fast, which nothing but a try tells.
    """
    if device != "cpu":
        return bool(torch.cuda.is_bf16_supported())
    return _product_s(torch.bfloat16) < _product_s(torch.float32)


def _product_s(kind: torch.dtype) -> float:
    """Seconds that a product takes, at best."""
    left, right = torch.ones(_ROWS, _WIDTH, dtype=kind), torch.ones(_WIDTH, 4 * _WIDTH, dtype=kind)
    took = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        torch.mm(left, right)
        took.append(time.perf_counter() - started)
    return min(took)
