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
from services.encoder import EncoderError, load_session, load_tokenizer, sanitised

INPUTS: Final = ("ids", "mask", "looks", "vectors", "kind", "shape", "owner", "parent", "features", "matches")
OUTPUTS: Final = ("call", "count", "source", "form", "start", "end", "option", "reference", "answer")


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
    """What is in a planner's directory: ``planner.onnx``, ``tokenizer.json``, and its second stage where it has one.

    Raises:
        EncoderError: they are not there, or are something else.
        JudgeError: its trees are damaged.
    """

    def __init__(self, directory: Path) -> None:
        for name in ("planner.onnx", "tokenizer.json"):
            if not (directory / name).is_file():
                raise EncoderError(f"the planner's directory {directory} has no {name}")
        self._session: Any = load_session(directory / "planner.onnx")
        self._tokenizer = load_tokenizer(directory / "tokenizer.json")
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
        tokens = self._tokenizer.encode(sanitised(query))
        inputs = arrange(query, tokens, apis, features)
        feed = {name: getattr(inputs, name) for name in INPUTS if name != "mask"} | {"mask": np.ones_like(inputs.ids)}
        found = self._session.run(OUTPUTS, {name: array[None] for name, array in feed.items()})
        logits = {name: array[0] for name, array in zip(OUTPUTS, found, strict=True)}
        return Reading(tuple(tokens.offsets), inputs, logits)
