"""Runs the trained network: a request and its candidates in, logits out. ONNX Runtime, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from planner_svc.backends.compact.inputs import Floats, Inputs, arrange
from planner_svc.backends.compact.items import SHAPES, Encoded
from planner_svc.backends.compact.judging import Judges
from services.encoder import EncoderError, OnnxEncoder, load_session

OF_UNITS: Final = ("units", "unit_kind", "unit_shape", "rows")
OF_ITEMS: Final = ("looks", "place", "kind", "shape", "owner", "parent", "features", "matches")
INPUTS: Final = ("read", "mask", "request", "tops", *OF_UNITS, *OF_ITEMS)
OUTPUTS: Final = ("call", "count", "source", "form", "start", "end", "option", "reference", "answer", "size")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What the network says of one request of t tokens with m items; see ``training.planner.network.Outputs``.

    Attributes:
        offsets: (start, end) of each token in the request.
        inputs: what it was asked.
        logits: by name.
    """

    offsets: tuple[tuple[int, int], ...]
    inputs: Inputs
    logits: Mapping[str, Floats]


class Reader:
    """What is in a planner's directory: both halves of the network, and its second stage where it has one.

    ``lower`` (``model.onnx``, ``tokenizer.json``) reads APIs and requests, each by itself; ``planner.onnx`` reads them
    together.

    Raises:
        EncoderError: they are not there, or are something else.
        JudgeError: its trees are damaged.
    """

    def __init__(self, directory: Path) -> None:
        if not (directory / "planner.onnx").is_file():
            raise EncoderError(f"the planner's directory {directory} has no planner.onnx")
        self._session: Any = load_session(directory / "planner.onnx")
        self.lower = OnnxEncoder(directory)
        self.judges = Judges.load(directory)
        asked = {node.name: node.shape for node in self._session.get_inputs()}
        given = {node.name for node in self._session.get_outputs()}
        if set(asked) != set(INPUTS) or given != set(OUTPUTS) or asked["shape"][-1] != SHAPES:
            raise EncoderError(
                f"{directory / 'planner.onnx'} takes {sorted(asked)} and answers {sorted(given)}: "
                "it is no planner, or one of another version"
            )

    def read(self, query: str, apis: Sequence[Encoded], features: Sequence[Sequence[float]]) -> Reading:
        """Read a request beside its candidates; blocks, run it on a pool."""
        tokens = self.lower.encode_tokens(query, special=True)
        inputs = arrange(query, tokens.offsets, apis, features)
        feed = {name: getattr(inputs, name) for name in OF_UNITS}
        feed |= {name: getattr(inputs, name)[None] for name in OF_ITEMS}
        feed |= {
            "read": tokens.vectors[None],
            "mask": np.ones((1, len(tokens.offsets)), np.int64),
            "request": np.zeros(len(inputs.rows), np.int64),
            "tops": inputs.rows[None, :, 0],
        }
        found = self._session.run(OUTPUTS, feed)
        logits = {name: array[0] for name, array in zip(OUTPUTS, found, strict=True)}
        return Reading(tuple(tokens.offsets), inputs, logits)
