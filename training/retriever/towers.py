"""The two towers: one sentence-transformers model that reads requests and APIs, as it runs in training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from services.encoder import Vectors
from training.retriever.export_encoder import MODEL, export_fp32
from training.retriever.recipe import Recipe
from training.shared.base import BaseError, default_source
from training.shared.checkpoints import CHECKPOINT
from training.shared.devices import faster_in_bfloat16
from training.shared.exports import restore_weights

_CHUNK: Final = {"cpu": 32, "cuda": 512}
"""Texts encoded together. On a GPU more of them: starting its kernels costs more than padding."""


class Towers:
    """Weights shared by the instruction tower and the API tower (docs/adr: why one model serves both).

    Args:
        recipe: base model, prefixes, precision, frozen weights.
        device: ``cpu`` or ``cuda``.

    Raises:
        BaseError: the recipe's base is not a model.
    """

    def __init__(self, recipe: Recipe, device: str) -> None:
        self.model = _load(recipe.base, device)
        self._recipe = recipe
        self._device = torch.device(device)
        self._bfloat16 = faster_in_bfloat16(device) if recipe.bfloat16 is None else recipe.bfloat16
        if recipe.freeze_embeddings:
            self.model[0].auto_model.get_input_embeddings().weight.requires_grad_(False)

    def queries(self, texts: Sequence[str]) -> torch.Tensor:
        """(n, d) vectors of requests, not normalised, with gradients if they are enabled."""
        return self._encode([self._recipe.query_prefix + text for text in texts])

    def documents(self, texts: Sequence[str]) -> torch.Tensor:
        """(n, d) vectors of APIs' texts, not normalised, with gradients if they are enabled."""
        return self._encode([self._recipe.document_prefix + text for text in texts])

    def trainable(self) -> list[torch.nn.Parameter]:
        """The weights that training changes."""
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    def embed(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """(n, d) normalised vectors without gradients, as in service."""
        self.model.eval()
        with torch.inference_mode():
            vectors = self.queries(texts) if query else self.documents(texts)
        return np.asarray(torch.nn.functional.normalize(vectors, dim=1).cpu().numpy(), dtype=np.float32)

    def _encode(self, texts: Sequence[str]) -> torch.Tensor:
        """Encode texts in chunks of similar length: otherwise padding is half the work."""
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        size = _CHUNK[self._device.type]
        chunks = [order[start : start + size] for start in range(0, len(order), size)]
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bfloat16):
            vectors = torch.cat([self._forward([texts[index] for index in chunk]) for chunk in chunks])
        return vectors.float()[torch.argsort(torch.tensor(order))]

    def _forward(self, texts: list[str]) -> torch.Tensor:
        features = self.model.tokenizer(
            texts, padding=True, truncation=True, max_length=self._recipe.max_tokens, return_tensors="pt"
        )
        return self.model({name: value.to(self._device) for name, value in features.items()})["sentence_embedding"]


def _load(base: str | None, device: str) -> SentenceTransformer:
    """The model to start from: the wheel's, another one, or the result of an earlier run, float or int8."""
    checkpoint, exported = Path(base or "", CHECKPOINT), Path(base or "", MODEL).is_file()
    try:
        if base is None or not (checkpoint.is_file() or exported):
            return SentenceTransformer(base or str(default_source()), device=device)
        model = SentenceTransformer(str(default_source()), device=device)
        if exported:
            restore_weights(model, lambda: export_fp32(model), Path(base or "", MODEL), unused="pooler")
            return model
        state: dict[str, Any] = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
    except Exception as error:  # the libraries raise many types, even bare exceptions
        raise BaseError(f"cannot start from {base}: {error}") from error
    return model
