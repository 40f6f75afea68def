"""Identifies the weights that a judge was fitted to: with other weights, its probabilities mean nothing."""

import hashlib
from pathlib import Path
from typing import Final

JUDGE: Final = "judge.npz"
"""The judge's file in the model's directory."""
_KINDS: Final = frozenset({".onnx", ".npz", ".safetensors"})
_CALIBRATION: Final = "calibration.json"


def fingerprint(directory: Path) -> str:
    """Hash of the files that decide a model's answers and its own confidence; empty if there are none.

    It is empty for a language model that runs elsewhere: its directory holds the judge alone.
    """
    files = sorted(file for file in directory.glob("*") if file.suffix in _KINDS or file.name == _CALIBRATION)
    hashes = [f"{file.name} {_sha256(file)}" for file in files if file.name != JUDGE]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest() if hashes else ""


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
