"""The device that a run trains on."""

from __future__ import annotations

import torch


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
