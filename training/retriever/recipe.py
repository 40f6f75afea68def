"""The recipe of a training run: everything besides the data that determines the result."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Recipe(BaseModel):
    """What determines the weights, besides the data. The defaults are those of the shipped model.

    Attributes:
        base: the model to start from: a sentence-transformers name or directory, the work folder of an earlier run
            (``OUT.work``), or a model that it made (``OUT``, with the precision of 8 bits); None: all-MiniLM-L6-v2 from
            its wheel.
        seed: of every random draw.
        epochs: passes over the recorded requests. The synthetic ones are drawn anew in each.
        requests: maximum number of recorded requests per source.
        leave_out: providers whose APIs are not trained on, nor the requests that need one of them. They stay in the
            catalogues that are measured, so a measurement of theirs is of providers never seen.
        synthetic: maximum number of documents per source and epoch that requests are generated for.
        minutes: end after this training time, with the learning rate at 0 by then; None: no limit. Such a run
            is not repeatable; it is meant for a shared machine.
        batch: pairs per step.
        run: neighbouring tools kept together in a batch.
        negatives: share of the pairs that add a mined hard negative.
        mined: candidates considered as negatives, per request.
        learning_rate: at its peak, after the warm-up; it decays linearly to 0.
        warmup: share of the steps in which it rises.
        scale: inverse temperature of the ranking loss.
        max_tokens: of a text, while training.
        freeze_embeddings: do not train the word embeddings, so that words not seen in training keep their position.
        bfloat16: compute matrix products in bfloat16, with weights in float32; None: if that is faster.
        query_prefix: prefix of the instruction tower's input, while training and measuring; serving has none.
        document_prefix: the same for the API tower's input.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str | None = None
    seed: int = 7
    epochs: Annotated[int, Field(ge=1, le=100)] = 1
    requests: Annotated[int, Field(ge=1)] = 1_500
    leave_out: tuple[str, ...] = ()
    synthetic: Annotated[int, Field(ge=0)] = 40_000
    minutes: Annotated[float, Field(gt=0)] | None = None
    batch: Annotated[int, Field(ge=2, le=4_096)] = 128
    run: Annotated[int, Field(ge=1)] = 16
    negatives: Share = 0.5
    mined: Annotated[int, Field(ge=0, le=50)] = 10
    learning_rate: Annotated[float, Field(gt=0, lt=0.1)] = 8e-5
    warmup: Share = 0.1
    scale: Annotated[float, Field(gt=0)] = 20.0
    max_tokens: Annotated[int, Field(ge=8, le=256)] = 128
    freeze_embeddings: bool = True
    bfloat16: bool | None = None
    query_prefix: str = ""
    document_prefix: str = ""
