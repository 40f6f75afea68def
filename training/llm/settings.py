"""The options of a finetuning run, besides its data and its base."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Method = Literal["lora", "qlora", "full"]

CPU_TOKENS = 2_560
GPU_TOKENS = 16_384
FULL_RATE = 2.5e-4
"""Learning rate at its peak for full finetuning, unless a recipe sets one."""


class Tuning(BaseModel):
    """How to finetune a model. The defaults are those of the shipped adapter.

    Attributes:
        method: ``lora``, low-rank adapters on all linear layers; ``qlora``, the same over weights in 4 bits; ``full``.
        minutes: of training, over all resumed runs. The learning rate decays over this time.
        epochs: maximum number of passes over the data.
        steps: maximum, instead of ``epochs``. Compared runs then do equal work, however busy the machine is.
        rank: of the adapters; their alpha is twice that.
        rate: learning rate at its peak; the default is for adapters.
        batch_tokens: in a batch, padding included; None: 2,560 on a CPU, 16,384 on a GPU.
        accumulate: batches per step.
        longest: maximum length of a conversation in tokens; longer ones are left out.
        save_steps: steps between two checkpoints.
        seed: of the adapters and the order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Method = "lora"
    minutes: Annotated[float, Field(gt=0)] = 75.0
    epochs: Annotated[float, Field(gt=0)] = 3.0
    steps: Annotated[int, Field(ge=1)] | None = None
    rank: Annotated[int, Field(ge=1, le=512)] = 24
    rate: Annotated[float, Field(gt=0, lt=0.1)] = 2.5e-3
    batch_tokens: Annotated[int, Field(ge=16)] | None = None
    accumulate: Annotated[int, Field(ge=1)] = 1
    longest: Annotated[int, Field(ge=16)] = 1_536
    save_steps: Annotated[int, Field(ge=1)] = 60
    seed: int = 7
