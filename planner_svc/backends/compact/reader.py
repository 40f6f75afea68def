"""Runs the trained network on a request and its candidates and returns logits. Uses ONNX Runtime, not torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from planner_svc.backends.compact.inputs import Floats, Inputs, arrange
from planner_svc.backends.compact.items import SHAPES, Encoded
from planner_svc.backends.compact.second_stage import Judges
from services.encoder import EncoderError, OnnxEncoder, load_session

OF_UNITS: Final = ("units", "unit_kind", "unit_shape", "rows")
OF_ITEMS: Final = ("looks", "place", "kind", "shape", "owner", "parent", "features", "matches")
INPUTS: Final = ("read", "mask", "request", "tops", *OF_UNITS, *OF_ITEMS)
OUTPUTS: Final = ("call", "count", "source", "form", "start", "end", "option", "reference", "answer", "size")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The network's outputs for one request of t tokens with m items; see ``training.planner.network.Outputs``.

    Attributes:
        offsets: (start, end) of each token in the request.
        inputs: the network's inputs.
        logits: its outputs, by name.
    """

    offsets: tuple[tuple[int, int], ...]
    inputs: Inputs
    logits: Mapping[str, Floats]


class Reader:
    """The content of a planner's directory: both halves of the network, and the second stage if there is one.

    ``lower`` (``model.onnx``, ``tokenizer.json``) reads APIs and requests separately; ``planner.onnx`` reads them
    together.

    Raises:
        EncoderError: the files are missing or invalid.
        JudgeError: the second stage's trees are damaged.
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
                f"{directory / 'planner.onnx'} has the inputs {sorted(asked)} and the outputs {sorted(given)}: it is "
                "not a planner, or one of another version"
            )

    def read(self, query: str, apis: Sequence[Encoded], features: Sequence[Sequence[float]]) -> Reading:
        """Run the network on a request and its candidates. Blocks, so run it in a pool."""
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
